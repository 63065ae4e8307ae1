"""Settings of a process: defaults < YAML file < environment (STREAM_GUARD_...) < flags."""

from stream_guard.settings.alerting import DeliverySettings, RouteSettings
from stream_guard.settings.judging import JudgeSettings
from stream_guard.settings.kafka import KafkaSettings, read_secret
from stream_guard.settings.loading import load_settings
from stream_guard.settings.plugins import PluginSettings
from stream_guard.settings.sections import (
    DELIMITER,
    PREFIX,
    ApiSettings,
    CommitSettings,
    ComplianceSettings,
    DecodeSettings,
    DiffSettings,
    HistorySettings,
    HookSettings,
    LogSettings,
    ModelPrice,
    PageSettings,
    ReceiverSettings,
    ReviewSettings,
    SessionLimits,
    Settings,
    StatusSettings,
    WorkerSettings,
)
from stream_guard.settings.values import Names, Section

__all__ = [
    "DELIMITER",
    "PREFIX",
    "ApiSettings",
    "CommitSettings",
    "ComplianceSettings",
    "DecodeSettings",
    "DeliverySettings",
    "DiffSettings",
    "HistorySettings",
    "HookSettings",
    "JudgeSettings",
    "KafkaSettings",
    "LogSettings",
    "ModelPrice",
    "Names",
    "PageSettings",
    "PluginSettings",
    "ReceiverSettings",
    "ReviewSettings",
    "RouteSettings",
    "Section",
    "SessionLimits",
    "Settings",
    "StatusSettings",
    "WorkerSettings",
    "load_settings",
    "read_secret",
]
