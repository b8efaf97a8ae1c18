"""What all analysts of one open dataset share: the releases so far, what follows from them, and how to plan."""

from functools import partial

from dodona.curator.buyer import Buyer
from dodona.curator.lookup import Lookup
from dodona.curator.planner import Planner
from dodona.curator.predictions import ModelTracker
from dodona.curator.rent_or_buy import RentOrBuyRule
from dodona.curator.request import Dataset
from dodona.knowledge.releases import ReleasedBlocks
from dodona.knowledge.shortlist import EVERY, place_beside
from dodona.privacy.additive_noise import normal_noise
from dodona.trusted.gate import read_public_rows


class SharedKnowledge:
    """What was learned about one open dataset, and how it is used: the same for all of its analysts."""

    def __init__(self, dataset: Dataset, *, shortlist_every: int = EVERY) -> None:
        """Take an open dataset; releases are read when the first question is asked.

        A shortlist of those that matter is kept beside the ledger, and written after so many further ones.
        """
        ledger, schema = dataset.ledger, dataset.schema
        self.planner = Planner(schema.unit, ledger.budget, ledger.share_each)
        rows = partial(read_public_rows, dataset.source, schema.domain, schema.unit)
        version = dataset.source.version
        beside = ledger.beside
        self.releases = ReleasedBlocks(
            ledger,
            schema.domain,
            dataset=dataset.name,
            version=version,
            rows=rows,
            shortlist=None if beside is None else place_beside(beside, dataset.name, version, schema.digest),
            every=shortlist_every,
        )
        self._of = (ledger, schema.domain, dataset.name)
        self._versions = {version: self.releases}
        self.lookup = Lookup(self.releases, schema.unit.size)
        rule = RentOrBuyRule(schema.domain, schema.unit, self.releases, normal_noise(ledger.budget))
        self.buyer = Buyer(self.planner, rule, ledger.shares, ledger.share)
        self.tracker = ModelTracker(self.releases, schema.unit.size)

    def of_version(self, version: str) -> ReleasedBlocks | None:
        """Return what was released about a version of the rows, read once; None if nothing was.

        The number of rows of an older version is unknown unless it was released.
        """
        if version not in self._versions:
            ledger, domain, name = self._of
            if not any((release.dataset, release.version) == (name, version) for release, _ in ledger.releases()):
                return None
            self._versions[version] = ReleasedBlocks(ledger, domain, dataset=name, version=version, rows=None)
        return self._versions[version]
