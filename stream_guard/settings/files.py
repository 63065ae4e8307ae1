"""Settings files: what one says, and on which line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode

from stream_guard.errors import SettingsError
from stream_guard.settings.sections import Settings


def read_file(file: Path) -> dict[str, Any]:
    """Return the sections that a file has, or raise SettingsError."""
    try:
        data = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{file}: the settings file cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file}: the settings file is not UTF-8: {error}") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise SettingsError(f"{file}{place}: not YAML: {error.problem}") from None
    except (YAMLError, RecursionError) as error:
        raise SettingsError(f"{file}: not YAML: {error}") from None
    if data is None:
        return {}
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        known = ", ".join(Settings.model_fields)
        raise SettingsError(f"{file}: a settings file is a mapping of the sections {known}")
    return {section: values for section, values in data.items() if values is not None}


def line_of(file: Path, steps: list[str]) -> int:
    """Return the line on which the last of the steps stands that the file has."""
    node, line = YAML(typ="safe", pure=True).compose(file.read_text(encoding="utf-8")), 1
    for step in steps[:2]:
        pairs = node.value if isinstance(node, MappingNode) else []
        for key, value in pairs:
            if key.value == step:
                node, line = value, key.start_mark.line + 1
    return line
