//! What can be planted in a holder, so that a run can prove that its checks would fail.

use serde::{Deserialize, Serialize};

/// A defect of a holder.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HolderDefect {
    /// Sends a refused write again at once, with the same token, instead of stopping and acquiring anew.
    HotLoop,
    /// Looks at its own clock before it writes to a resource that does not compare tokens.
    ClockCheck,
    /// Asks for a lease ten times longer, and writes to a resource that does not compare tokens.
    LongLease,
    /// Presents the first token that anybody in its process was granted.
    TokenCached,
    /// A layer below repeats a conditional write, and takes its own success for somebody else's.
    SdkRetry,
}

/// The holder's part of `fencepost list defects`: name and one line.
pub const HOLDER_DEFECTS: &[(HolderDefect, &str, &str)] = &[
    (
        HolderDefect::HotLoop,
        "hot-loop",
        "the holder retries a refused write with the same token, without a pause",
    ),
    (
        HolderDefect::ClockCheck,
        "clock-check",
        "the holder looks at its own clock before it writes, and sends no token that anybody compares: it may be stopped right after the look",
    ),
    (
        HolderDefect::LongLease,
        "long-lease",
        "nothing is fenced, but the lease is ten times longer: it takes a longer pause, that is all",
    ),
    (
        HolderDefect::TokenCached,
        "token-cached",
        "the token is kept for the process (a singleton, a field set once): the next grant, or a sibling's, never replaces it",
    ),
    (
        HolderDefect::SdkRetry,
        "sdk-retry",
        "an SDK repeats a conditional write whose answer was lost, meets its own success, and reports a conflict",
    ),
];

impl HolderDefect {
    /// The name, as written on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        let row = HOLDER_DEFECTS.iter().find(|(defect, _, _)| *defect == self);
        row.map_or("", |(_, name, _)| name)
    }

    /// Whether it stands in the place of a fence: the resource compares nothing then.
    #[must_use]
    pub fn instead_of_a_fence(self) -> bool {
        matches!(self, Self::ClockCheck | Self::LongLease)
    }
}

impl std::str::FromStr for HolderDefect {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        HOLDER_DEFECTS
            .iter()
            .find(|(_, known, _)| *known == name)
            .map(|(defect, _, _)| *defect)
            .ok_or(())
    }
}
