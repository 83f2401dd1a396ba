//! Systems without a fence that are safe all the same, each beside the one that is not.

/// One of them, as a built-in suite.
#[derive(Clone, Copy, Debug)]
pub struct Alternative {
    /// The suite.
    pub suite: &'static str,
    /// What is planted in it, where that is what makes it unsafe.
    pub defect: Option<&'static str>,
    /// What must be found; none: it is safe and must be valid.
    pub found_as: &'static [&'static str],
    /// What it is.
    pub about: &'static str,
}

/// All of them.
pub const ALTERNATIVES: &[Alternative] = &[
    Alternative {
        suite: "alt-webhook",
        defect: None,
        found_as: &[],
        about: "A third party's API that compares nothing: each effect has an idempotency key, so that one that is sent again changes nothing, however late.",
    },
    Alternative {
        suite: "alt-webhook-unkeyed",
        defect: None,
        found_as: &["not-linearizable"],
        about: "The same without idempotency keys: an effect whose answer was lost is sent again and happens twice.",
    },
    Alternative {
        suite: "alt-cas",
        defect: None,
        found_as: &[],
        about: "Compare-and-set on the data's own version: no lock is needed, and who comes late finds another version.",
    },
    Alternative {
        suite: "alt-cas",
        defect: Some("unfenced"),
        found_as: &["not-linearizable"],
        about: "The same where the resource does not look at the version.",
    },
    Alternative {
        suite: "alt-routing",
        defect: None,
        found_as: &[],
        about: "One writer for each partition by routing, on a resource that compares nothing: nobody else ever writes to its keys, so what it read is what it replaces.",
    },
    Alternative {
        suite: "alt-unrouted",
        defect: None,
        found_as: &["not-linearizable"],
        about: "The same without routing: two writers for each partition replace what they read, and one of them replaces what the other wrote.",
    },
    Alternative {
        suite: "alt-shared-file",
        defect: None,
        found_as: &["stale-write-accepted"],
        about: "A shared file with a lock: there is no place that could compare tokens, and a stale node writes when it wakes.",
    },
    Alternative {
        suite: "alt-stonith",
        defect: None,
        found_as: &[],
        about: "The same file, where a node that was stopped until another was granted its lock is killed before that one writes: nothing of it is left that could write late.",
    },
];

#[cfg(test)]
mod tests {
    use fencepost_workloads::suite::built_in;

    use super::ALTERNATIVES;

    #[test]
    fn each_is_a_built_in_suite() {
        for alternative in ALTERNATIVES {
            assert!(
                built_in(alternative.suite).is_some(),
                "{}",
                alternative.suite
            );
        }
    }
}
