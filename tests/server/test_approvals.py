"""Limits and approvals through the core: an analyst requests, an owner decides at another socket, once."""

import asyncio
from pathlib import Path

from tests.server.scene import connected, document, make_dataset, running_core

COUNT = "SELECT count(*) FROM stays WHERE age >= 65"


def test_a_question_over_a_limit_is_requested_granted_and_asked_once(tmp_path: Path):
    make_dataset(tmp_path / "data", epsilon="4", extra='[limits]\nquestion = "1%"\napprovals = true\n')

    async def play() -> None:
        async with connected(core.analysts) as ada, connected(core.owners, "olga", "owner") as olga:
            refused = await ada.call("ask", question=COUNT, within=10, key="big", max_price="100%")
            assert (refused.status, document(refused)["type"]) == (403, "/errors/price-above-limit")
            assert not document(refused)["charged"]
            limits = document(await ada.call("describe"))["limits"]
            assert (limits["question"], limits["approvals"]) == ("1/100", True)

            made = await ada.call("request", question=COUNT, within=10, key="big")
            assert (made.status, document(made)["state"]) == (201, "waiting")
            assert document(await ada.as_caller("bob").call("requests"))["requests"] == []
            (seen,) = document(await olga.call("requests"))["requests"]
            assert (seen["analyst"], seen["text"]) == ("ada", COUNT)

            at_the_wrong_door = await ada.as_caller("olga", "owner").call("decide", request=seen["id"], grant=True)
            assert document(at_the_wrong_door)["type"] == "/errors/owners-only"
            granted = await olga.call("decide", request=seen["id"], grant=True)
            assert (document(granted)["state"], document(granted)["decided_by"]) == ("granted", "olga")
            again = await olga.call("decide", request=seen["id"], grant=False)
            assert again.status == 400

            answer = await ada.call("ask", question=COUNT, within=10, key="big")
            assert answer.status == 200
            assert answer.headers["Dodona-Price"] == seen["share"]
            (used,) = document(await ada.call("requests"))["requests"]
            assert used["state"] == "used"

    with running_core(tmp_path / "data", tmp_path) as core:
        asyncio.run(play())


def test_an_owner_sets_limits_at_once_for_all_workers(tmp_path: Path):
    make_dataset(tmp_path / "data", epsilon="4")

    async def play() -> None:
        async with connected(core.analysts) as ada, connected(core.owners, "olga", "owner") as olga:
            assert (await ada.call("ask", question=COUNT, within=200, key="first")).status == 200
            for wrong in ({"question": "200%"}, {"approvals": "yes"}, {"other": 1}):
                assert (await olga.call("limits", **wrong)).status == 400
            assert document(await olga.call("limits", dataset_day="0.01%"))["dataset_day"] == "1/10000"
            refused = await ada.call("ask", question="SELECT count(*) FROM stays", within=200, key="second")
            assert document(refused)["type"] == "/errors/price-above-limit"
            assert (await ada.call("ask", question=COUNT, within=200, key="third")).status == 200  # it is free

    with running_core(tmp_path / "data", tmp_path) as core:
        asyncio.run(play())
