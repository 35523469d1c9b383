"""The proof of a schedule: every rule of `RULES`, each one isl question with a witness when it fails."""

from polyfuse.legality.rules import RULES as RULES
from polyfuse.legality.rules import Rule as Rule
from polyfuse.legality.rules import prove as prove
