"""What the backend must be told about a Coolify."""

import hashlib
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CoolifyConfig:
    url: str
    token: str = field(repr=False)
    project_uuid: str
    server_uuid: str
    environment_name: str
    installation_id: str
    destination_uuid: str | None = None
    concurrent_deployments: int = 4
    status_lag_s: float = 60.0
    retry_wait_s: float = 0.2
    """Before a request that only reads is repeated."""
    follow_interval_s: float = 2.0
    """How often a followed log is asked for; Coolify cannot stream."""

    @property
    def tag(self) -> str:
        """The mark of what is ours.

        Coolify writes tags in lower case: ids that differ in nothing else get different hashes.
        """
        lower = self.installation_id.lower()
        if lower == self.installation_id:
            return f"botpool-{lower}"
        return f"botpool-{lower}-{hashlib.sha256(self.installation_id.encode()).hexdigest()[:8]}"
