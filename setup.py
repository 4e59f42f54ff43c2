"""Adds the wrapper `botpool-agent` to the wheel, where `make agent` has built it.

Without the binary the wheel is pure Python and needs no Go. pyproject.toml holds everything else.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel

WRAPPER = Path("packages/agent-go/botpool-agent")


class PlatformWheel(bdist_wheel):
    """Names the machine of the binary, but no version of Python."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


if WRAPPER.exists():
    # A script of setuptools must be text, so the binary is a data file of the directory of scripts.
    setup(data_files=[("bin", [str(WRAPPER)])], cmdclass={"bdist_wheel": PlatformWheel})
else:
    setup()
