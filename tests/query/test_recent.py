"""Recent results: found once for a query, and never told of another."""

from dodona.query.canonical import RecentCache
from dodona.query.query import Query
from dodona.schema.attributes import Boolean
from dodona.schema.schema import Domain

DOMAIN = Domain((Boolean("emergency"),))


def asked(recent: RecentCache[int], query: Query, how: str, calls: list[str]) -> int:
    def work() -> int:
        calls.append(how)
        return len(calls)

    return recent.of(query, how, work)


def test_a_result_is_worked_out_once_for_the_same_query_and_arguments() -> None:
    recent, calls, query = RecentCache[int](), list[str](), Query.count(DOMAIN)
    assert [asked(recent, query, "a", calls) for _ in range(3)] == [1, 1, 1]
    assert asked(recent, query, "b", calls) == 2
    assert calls == ["a", "b"]


def test_another_query_is_another_one_even_if_it_is_equal() -> None:
    recent, calls = RecentCache[int](), list[str]()
    assert asked(recent, Query.count(DOMAIN), "a", calls) == 1
    assert asked(recent, Query.count(DOMAIN), "a", calls) == 2


def test_only_the_last_few_are_kept() -> None:
    recent, calls = RecentCache[int](), list[str]()
    queries = [Query.count(DOMAIN) for _ in range(9)]
    for query in queries:
        asked(recent, query, "a", calls)
    assert asked(recent, queries[-1], "a", calls) == 9
    assert asked(recent, queries[0], "a", calls) == 10
