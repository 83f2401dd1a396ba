//! What can be planted in a holder, so that a run can prove that its checks would fail.

/// A defect of a holder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HolderDefect {
    /// Sends a refused write again at once, with the same token, instead of stopping and acquiring anew.
    HotLoop,
}

/// The holder's part of `fencepost list defects`: name and one line.
pub const HOLDER_DEFECTS: &[(HolderDefect, &str, &str)] = &[(
    HolderDefect::HotLoop,
    "hot-loop",
    "the holder retries a refused write with the same token, without a pause",
)];

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
