//! Defects of the holder.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "hot-loop",
        found_as: &["hot-retry"],
        says: &[],
        suite: "teeth",
        production: "A refused write is sent again at once with the same token, as if it were a timeout: a generic retry policy around a fenced write.",
        operator: "`fencepost_resource_refusals_total` has one token with hundreds of refusals within a second, from one client.",
        shown: "At least five refusals of one token by one client, each sent within 10 ms after the one before.",
        fix: "A refusal by the fence is final: stop, drop what was in flight, acquire anew, read again. Never retry it.",
    },
    Row {
        name: "clock-check",
        found_as: &["stale-write-accepted"],
        says: &["had decided to write and was stopped before its request left"],
        suite: "teeth-between",
        production: "Instead of sending a token the holder looks at its own clock right before it writes: `if (lease.isValid()) write()`. It may be stopped between the two, by a collector, a hypervisor or a slow disk.",
        operator: "Rare overwrites after long pauses; the holder's log says that the lease was valid. No refusals anywhere, because nothing compares.",
        shown: "The `between` fault stops the worker after its look and before its request leaves, until a successor has written; the write is accepted, and the story has the stop between the two.",
        fix: "Send the token with the write and compare it in the resource. A check of the clock may save work, it protects nothing.",
    },
    Row {
        name: "long-lease",
        found_as: &["stale-write-accepted"],
        says: &[],
        suite: "teeth",
        production: "Nothing is fenced, but the lease is ten times longer, so that it will hardly happen. It takes a longer pause, that is all; and a dead holder is waited for ten times longer.",
        operator: "Slow takeovers every day, and once in a while an overwrite after a stop that was longer than anybody believed in.",
        shown: "The zombie is stopped until its long lease has lapsed and a successor has written; then its write is accepted.",
        fix: "Fence. Choose the lease by how fast a takeover must be, not by how long a pause may last.",
    },
    Row {
        name: "token-cached",
        found_as: &["write-without-grant", "double-writer-in-epoch"],
        says: &[],
        suite: "teeth",
        production: "The token is kept in a place that outlives the grant: a singleton, a static field, a connection pool. The next grant does not replace it, or a sibling in the process uses it.",
        operator: "Refusals right after successful acquires; the presented tokens lag behind the granted ones, and two clients present one token.",
        shown: "A client presents a token that nobody had granted to it.",
        fix: "Carry the token with the hold: an argument, never a global. Drop it with the release.",
    },
    Row {
        name: "sdk-retry",
        found_as: &["failed-write-applied"],
        says: &[],
        suite: "teeth-retry",
        production: "An SDK or a proxy repeats a conditional write whose answer was lost; the second one meets the first one's success and is reported as a conflict. The caller believes that nothing was written.",
        operator: "Conflicts without a competitor, right after timeouts; the values of refused writes are there.",
        shown: "Answers to a holder's writes are dropped after they were applied; the write is reported as a definite no, and its value is read.",
        fix: "Switch retries off for conditional writes, or make them recognise their own write (a request id in the record). Report unknown where the first outcome is unknown.",
    },
];
