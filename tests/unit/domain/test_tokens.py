from hypothesis import given
from hypothesis import strategies as st

from botpool.domain.ids import AssignmentId
from botpool.domain.tokens import agent_token, assignment_of, hash_api_key, new_api_key

ids = st.integers(1, 2**63 - 1).map(AssignmentId)


@given(ids)
def test_token_names_its_assignment(assignment: AssignmentId) -> None:
    assert assignment_of(agent_token(assignment, b"s"), [b"s"]) == assignment


@given(ids, ids)
def test_signature_is_valid_for_one_assignment_and_secret(
    mine: AssignmentId, other: AssignmentId
) -> None:
    signature = agent_token(mine, b"s").rpartition(".")[2]
    forged = assignment_of(f"bpa.{other}.{signature}", [b"s"])
    assert forged == (mine if mine == other else None)
    assert assignment_of(agent_token(mine, b"s"), [b"another secret"]) is None


@given(st.text() | st.from_regex(r"bpa\.[0-9]{1,40}\..*"))
def test_other_text_is_no_token(text: str) -> None:
    assert assignment_of(text, [b"s"]) is None


@given(st.text())
def test_any_text_can_be_hashed_as_key(text: str) -> None:
    assert len(hash_api_key(text)) == 32


def test_new_keys_differ() -> None:
    assert len({new_api_key() for _ in range(1000)}) == 1000
