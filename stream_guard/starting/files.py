"""Write the files that a beginner gets: all of them or none, and nothing that is there is overwritten unasked."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from stream_guard.errors import SettingsError


def refuse_to_overwrite(folder: Path, names: Iterable[str]) -> None:
    """Raise SettingsError where one of the files is there already."""
    targets = [folder / name for name in names]
    there = [str(target) for target in targets if target.exists() or target.is_symlink()]
    if there:
        raise SettingsError(f"not overwritten: {', '.join(there)}; name another folder with --into, or say --force")


def write_files(folder: Path, texts: Mapping[str, str], *, force: bool) -> list[Path]:
    """Write the files into the folder and return them; raises SettingsError where one is there already.

    A file that is replaced is replaced as a whole: a link is not followed, and no reader sees half of it.
    """
    targets = [folder / name for name in texts]
    if not force:
        refuse_to_overwrite(folder, texts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for target, text in zip(targets, texts.values(), strict=True):
            _replace(target, text)
    except OSError as error:
        raise SettingsError(f"{folder}: cannot be written: {error.strerror or error}") from None
    return targets


def _replace(target: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
