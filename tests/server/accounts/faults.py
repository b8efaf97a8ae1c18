"""Faults that would let somebody in, and the test that must notice each.

    python -m tests.server.accounts.faults NUMBER

runs the tests of one fault with the fault in place; the exit code 1 means that it was noticed.
"""

import sys
from dataclasses import dataclass

from dodona.lab.audit.patch import Patch, replace_lines
from tests.house.patching import run

FOLDER = "tests/server/accounts"


@dataclass(frozen=True, slots=True)
class Fault:
    """Source lines that become others, and the test that fails then."""

    name: str
    module: str
    symbol: str
    old: str
    new: str
    test: str

    @property
    def patch(self) -> Patch:
        return replace_lines(f"dodona.server.{self.module}", self.old, self.new, self.symbol)


FAULTS = (
    Fault(
        "an expired token is accepted",
        "accounts",
        "Accounts._use",
        "if known.expires is not None and now >= known.expires:",
        "if known.expires is not None and now > known.expires + 10**6:",
        "test_contract.py::test_a_token_expires",
    ),
    Fault(
        "a token is known by its id alone",
        "accounts",
        "Accounts._use",
        "if known is None or (digest is not None and not secrets.equal(digest, known.digest)):",
        "if known is None:",
        "test_contract.py::test_a_token_is_compared_in_full_and_not_by_its_id",
    ),
    Fault(
        "what was read once is believed for ever",
        "accounts",
        "Accounts._use",
        "if known is None or known.revision != revision:",
        "if known is None:",
        "test_contract.py::test_another_process_notices_a_change_at_once_or_within_a_second",
    ),
    Fault(
        "an act does not raise the revision",
        "accounts",
        "Accounts.act",
        'run("UPDATE dodona_accounts_state SET revision = revision + 1", ())',
        "pass",
        "test_contract.py::test_another_process_notices_a_change_at_once_or_within_a_second",
    ),
    Fault(
        "a stopped account logs in by password",
        "accounts",
        "Accounts.stop",
        '"UPDATE dodona_accounts SET stopped = ?, password = NULL WHERE name = ? AND stopped IS NULL",',
        '"UPDATE dodona_accounts SET stopped = ? WHERE name = ? AND stopped IS NULL",',
        "test_contract.py::test_a_stopped_account_is_out_and_comes_back_without_its_secrets",
    ),
    Fault(
        "the scope of a token is ignored",
        "identity",
        "Identity.role",
        "if self.datasets is not None and dataset not in self.datasets:",
        "if self.datasets is not None and not self.datasets:",
        "test_contract.py::test_the_scope_of_a_token_narrows_what_the_account_may",
    ),
    Fault(
        "a token for one dataset manages accounts",
        "identity",
        "Identity.manages_accounts",
        'return self.datasets is None and self.grants.get(EVERY_DATASET) == "owner"',
        'return self.grants.get(EVERY_DATASET) == "owner"',
        "test_contract.py::test_the_scope_of_a_token_narrows_what_the_account_may",
    ),
    Fault(
        "a token makes tokens",
        "identity",
        "Identity.may_issue_tokens",
        "return self.token is None or self.manages_accounts",
        "return True",
        "test_contract.py::test_an_analyst_makes_tokens_on_the_page_and_a_token_makes_none",
    ),
    Fault(
        "the clock on the wall is believed",
        "identity",
        "Clock.latest",
        "return int(max(self._wall(), self._steady() + self._offset))",
        "return int(self._wall())",
        "test_contract.py::test_a_clock_that_jumps_while_a_server_runs_grants_and_destroys_nothing",
    ),
    Fault(
        "expired tokens do not end",
        "accounts",
        "_end_expired",
        'run("UPDATE dodona_tokens SET ended = ? WHERE ended IS NULL AND expires <= ?", (now, now))',
        "pass",
        "test_contract.py::test_a_clock_that_is_set_back_does_not_revive_what_a_server_saw_expire",
    ),
    Fault(
        "a token is stored as it is",
        "secrets",
        "digest",
        "return hashlib.sha256(_octets(secret)).hexdigest()",
        "return (hashlib.sha256(_octets(secret)).hexdigest() + secret)[-64:]",
        "test_store.py::test_no_secret_is_in_the_files_the_logs_or_a_repr",
    ),
    Fault(
        "a token can be printed by accident",
        "accounts",
        "IssuedToken",
        "text: str = field(repr=False)",
        "text: str",
        "test_store.py::test_no_secret_is_in_the_files_the_logs_or_a_repr",
    ),
    Fault(
        "an account that is not there is refused at once",
        "secrets",
        "verify_password",
        "    prepared = _prepare(password)",
        "    prepared = _prepare(password)\n    if stored is None:\n        return False",
        "test_secrets.py::test_an_account_that_is_not_there_takes_as_long_as_a_wrong_password",
    ),
    Fault(
        "everybody may read the accounts",
        "account_store",
        "_create_file",
        "os.fchmod(file, 0o660 if shared else 0o600)",
        "os.fchmod(file, 0o644)",
        "test_store.py::test_the_group_may_use_accounts_in_a_folder_that_was_given_to_it",
    ),
    Fault(
        "writers are not alone",
        "account_store",
        "SqliteAccounts.write",
        'self._writer.execute("BEGIN IMMEDIATE")',
        'self._writer.execute("BEGIN")',
        "test_store.py::test_a_writer_waits_until_the_one_before_is_done",
    ),
    Fault(
        "writers are not alone in the database",
        "account_store",
        "PostgresAccounts.write",
        "connection.execute(\"SELECT pg_advisory_xact_lock(hashtextextended('dodona accounts', 0))\")",
        'connection.execute("SELECT 1")',
        "test_store.py::test_a_writer_waits_until_the_one_before_is_done",
    ),
    Fault(
        "a page of the same domain may change something",
        "sessions",
        "require_same_origin",
        'if site != "same-origin":',
        'if site not in {"same-origin", "same-site"}:',
        "test_sessions.py::test_another_site_may_change_nothing",
    ),
    Fault(
        "an origin that begins like ours is ours",
        "sessions",
        "_is_origin",
        "return plain and url.netloc.lower().removesuffix(port) == host.lower().removesuffix(port)",
        "return plain and url.netloc.lower().startswith(host.lower())",
        "test_sessions.py::test_another_site_may_change_nothing",
    ),
    Fault(
        "attempts count once they have failed",
        "sessions",
        "Throttle.attempt",
        "self._accounts.fail(whose, now)",
        "pass",
        "test_sessions.py::test_attempts_at_once_share_no_free_try",
    ),
    Fault(
        "a good login buys its address new guesses",
        "sessions",
        "Throttle.succeed",
        "self._addresses.forgive(self._addresses.find(network(address)), 1)",
        "self._addresses.forgive(self._addresses.find(network(address)), None)",
        "test_sessions.py::test_a_right_password_ends_the_wait_of_the_account_but_buys_the_address_no_guesses",
    ),
    Fault(
        "a clock that is set back lengthens a session",
        "sessions",
        "Sessions.authenticate",
        "if not secrets.equal(digest, stored) or not alive or set_back:",
        "if not secrets.equal(digest, stored) or not alive:",
        "test_sessions.py::test_a_clock_that_is_set_back_does_not_lengthen_a_session",
    ),
    Fault(
        "a new password leaves the sessions",
        "accounts",
        "Accounts.set_password",
        'run("DELETE FROM dodona_sessions WHERE account = ?", (account,))',
        "pass",
        "test_sessions.py::test_sessions_end_with_a_new_password_and_with_the_account",
    ),
    Fault(
        "any browser completes a login",
        "oidc",
        "Provider.finish",
        'if not secrets.equal(query.get("state", ""), _derive(cookie, "state")):',
        'if not query.get("state", ""):',
        "test_oidc.py::test_only_the_browser_that_began_a_login_completes_it",
    ),
    Fault(
        "the statement of another login will do",
        "oidc",
        "Provider._verify",
        'if party != self._settings.client_id or not secrets.equal(str(claims["nonce"]), nonce):',
        "if party != self._settings.client_id:",
        "test_oidc.py::test_a_statement_for_another_party_time_or_login_is_refused",
    ),
    Fault(
        "the statement to another client will do",
        "oidc",
        "Provider._verify",
        'aud={"essential": True, "value": self._settings.client_id},',
        'aud={"essential": True},',
        "test_oidc.py::test_a_statement_for_another_party_time_or_login_is_refused",
    ),
    Fault(
        "an address that nobody verified will do",
        "oidc",
        "Provider._identify",
        'verified = email.lower() if isinstance(email, str) and claims.get("email_verified") is True else None',
        "verified = email.lower() if isinstance(email, str) else None",
        "test_oidc.py::test_an_address_that_is_not_verified_or_not_known_opens_nothing",
    ),
    Fault(
        "an address takes an account from its subject",
        "oidc",
        "_find_account",
        'rows = run("SELECT name, stopped FROM dodona_accounts WHERE email = ? AND subject IS NULL", (email,))',
        'rows = run("SELECT name, stopped FROM dodona_accounts WHERE email = ?", (email,))',
        "test_oidc.py::test_an_account_stays_with_its_first_subject_whoever_gets_the_address",
    ),
    Fault(
        "every stranger makes us fetch keys",
        "oidc",
        "Provider._decode",
        "if fresh or self._accounts.clock.steady() - self._keys_at < _PAUSE:",
        "if fresh:",
        "test_oidc.py::test_new_keys_of_the_provider_are_noticed_but_not_fetched_for_every_stranger",
    ),
)


def main(number: str) -> int:
    """Return the exit code of the test of a fault, with the fault in place."""
    fault = FAULTS[int(number)]
    return run(fault.patch, [f"{FOLDER}/{fault.test}"])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
