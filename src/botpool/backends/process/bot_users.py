"""The users that run the programs of bots.

A program that runs as Botpool's own user can read Botpool's keys, secrets and environment, and the
files of every other bot. As root, Botpool therefore gives each run a user id of its own from a
range that no account uses: no account has to exist, and no run can read the files or the
environment of another. `backends.process.user` names one account for all bots instead.
"""

import os
import pwd
import shutil
import subprocess
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from botpool.domain.errors import SettingError
from botpool.domain.ids import AssignmentId

_SETTING = "backends.process.user"
_FIRST_UID = 1_900_000_000
"""Above the ranges of accounts and containers, below 2**31 (systemd's table of user ids)."""
_BLOCKS, _BLOCK_SIZE = 2_000, 100_000
"""Installations on one machine use different blocks, unless their ids have the same checksum."""


_AGENT = Path(__file__).parents[2] / "agent" / "__init__.py"
"""A file of the demo bot."""
_FIND_UNUSABLE = """\
while [ $# -gt 0 ]; do
  test "$1" "$2" || { printf %s "$2"; exit 1; }
  shift 2
done
"""
"""Prints the first path that fails its test. The arguments are a test and a path, in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BotUsers:
    """Which user runs the program of an assignment."""

    account: Account | None = None
    """One account for all bots."""
    first_uid: int | None = None
    """The first user id of this installation's block; each assignment has its own."""
    problem: str = ""
    """Why bots run as Botpool's own user; empty if they do not."""

    def of(self, assignment_id: AssignmentId) -> Account | None:
        """Return the account of a run; None is Botpool's own user."""
        if self.first_uid is None:
            return self.account
        uid = self.first_uid + assignment_id % _BLOCK_SIZE
        return Account(uid=uid, gid=uid)

    @property
    def are_separate(self) -> bool:
        return self.account is not None or self.first_uid is not None


OUR_USER = BotUsers()


def bot_users(
    *, user: str | None, command: Sequence[str], folder: Path, installation_id: str
) -> BotUsers:
    """Choose the users of the bots that run `command` in containers below `folder`.

    Raises SettingError if the configured user cannot run them.
    """
    if user is not None:
        return _check_configured_user(user, command, folder)
    name = _name_of(os.geteuid())
    if os.geteuid() != 0:
        return BotUsers(problem=f"bots run as Botpool's own user ({name})")
    block = zlib.crc32(installation_id.encode()) % _BLOCKS
    users = BotUsers(first_uid=_FIRST_UID + block * _BLOCK_SIZE)
    unusable = _unusable_path(Account(uid=_FIRST_UID, gid=_FIRST_UID), command, folder)
    if unusable is None:
        return users
    return BotUsers(problem=f"bots run as {name}, because other users have no access to {unusable}")


def _check_configured_user(user: str, command: Sequence[str], folder: Path) -> BotUsers:
    account = _find_account(user)
    if account.uid == 0:
        raise SettingError(_SETTING, "is root: name a user without privileges")
    if account.uid == os.geteuid():
        return BotUsers(problem=f"bots run as Botpool's own user ({user})")
    if os.geteuid() != 0:
        raise SettingError(_SETTING, "needs root: run Botpool as root, or remove this setting")
    if (unusable := _unusable_path(account, command, folder)) is not None:
        raise SettingError(_SETTING, f"the user {user} has no access to {unusable}")
    return BotUsers(account=account)


def _find_account(user: str) -> Account:
    try:
        entry = pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
    except (KeyError, OverflowError):
        raise SettingError(_SETTING, f"there is no user {user} on this machine") from None
    return Account(uid=entry.pw_uid, gid=entry.pw_gid)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _unusable_path(account: Account, command: Sequence[str], folder: Path) -> str | None:
    """Return the first path that a run needs and the account cannot use."""
    needed = ["-x", shutil.which(command[0]) or command[0]]
    for word in command[1:]:
        if Path(word).is_absolute() and Path(word).exists():
            needed += ["-r", word]
    if "-m" in command and any(word.startswith("botpool.") for word in command):
        needed += ["-r", str(_AGENT)]
    # Botpool itself opens the data directory, which holds the folder, but nothing above it.
    needed += ["-x", str(folder.absolute().parents[1])]
    asked = subprocess.run(
        ["/bin/sh", "-c", _FIND_UNUSABLE, "sh", *needed],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={},
        user=account.uid,
        group=account.gid,
        extra_groups=[],
    )
    return str(Path(asked.stdout).resolve()) if asked.returncode else None
