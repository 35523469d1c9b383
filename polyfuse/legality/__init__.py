"""The proof of a schedule: every rule of `RULES`, each one isl question with a witness when it fails."""

from polyfuse.legality.guards import SizeCondition as SizeCondition
from polyfuse.legality.guards import guard_of as guard_of
from polyfuse.legality.reuse import may_reuse as may_reuse
from polyfuse.legality.rules import RULES as RULES
from polyfuse.legality.rules import Rule as Rule
from polyfuse.legality.rules import prove as prove
from polyfuse.legality.rules import prove_at_length as prove_at_length
from polyfuse.legality.side_by_side import MEMBER_RULES as MEMBER_RULES
from polyfuse.legality.side_by_side import prove_side_by_side as prove_side_by_side
