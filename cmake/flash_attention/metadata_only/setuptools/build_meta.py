"""A build backend that builds nothing and runs nothing of the archive.

`pip download` asks the build backend of a source archive for its metadata. flash-attn's own setup.py would
import torch for that. The archive carries its metadata already, as PKG-INFO, and this hands it over.
"""

import email
import pathlib
import sys


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Called with the unpacked archive as working directory; returns the name of the folder it made."""
    text = pathlib.Path("PKG-INFO").read_text(encoding="utf-8")
    fields = email.message_from_string(text)
    folder = pathlib.Path(metadata_directory) / f"{fields['Name'].replace('-', '_')}-{fields['Version']}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(text, encoding="utf-8")
    return folder.name


# pip names the object that serves archives without pyproject.toml: setuptools.build_meta:__legacy__.
__legacy__ = sys.modules[__name__]
