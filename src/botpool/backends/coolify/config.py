"""Configuration of the Coolify backend."""

import hashlib
from dataclasses import dataclass, field

_API_PATH = "/api/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoolifyConfig:
    url: str
    token: str = field(repr=False)
    project_uuid: str
    server_uuid: str
    environment_name: str
    installation_id: str
    destination_uuid: str | None = None
    concurrent_deployments: int | None = None
    """None: derived from the concurrent builds of the server."""
    status_lag_s: float = 60.0
    retry_wait_s: float = 0.2
    """The pause before a read request is repeated."""
    follow_interval_s: float = 2.0
    """The interval at which a followed log is read; Coolify cannot stream logs."""

    @property
    def api_url(self) -> str:
        """The address of the API, from one with or without its path."""
        return f"{self.url.rstrip('/').removesuffix(_API_PATH).rstrip('/')}{_API_PATH}"

    @property
    def tag(self) -> str:
        """The tag of this installation's applications.

        Coolify stores tags in lower case; a hash keeps ids apart that differ only in case.
        """
        lower = self.installation_id.lower()
        if lower == self.installation_id:
            return f"botpool-{lower}"
        return f"botpool-{lower}-{hashlib.sha256(self.installation_id.encode()).hexdigest()[:8]}"
