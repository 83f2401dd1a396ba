//! How long a search may go on.

/// Where a search stops without an answer. By default never.
///
/// Steps are calls of a model that the search tries, counted for each part (key) alone. So with a limit of steps and
/// nothing else the same file has the same verdict on every machine, however many cores it has.
#[derive(Clone, Copy, Default)]
pub struct Limits<'a> {
    /// At most so many steps for each part.
    pub steps: Option<u64>,
    /// At most so many bytes for all searches together.
    pub memory: Option<usize>,
    /// An outer stop: asked every few hundred steps, from any thread; `true` ends all searches. This crate has no clock,
    /// so a limit of time is the caller's.
    pub stop: Option<&'a (dyn Fn() -> bool + Sync)>,
    /// At most so many threads; `None`: as many as there are cores.
    pub threads: Option<usize>,
}

impl std::fmt::Debug for Limits<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limits")
            .field("steps", &self.steps)
            .field("memory", &self.memory)
            .field("stop", &self.stop.is_some())
            .field("threads", &self.threads)
            .finish()
    }
}

/// Which limit ended a search.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exhausted {
    /// The steps.
    Steps,
    /// The memory.
    Memory,
    /// The outer stop.
    Stopped,
}

impl Exhausted {
    /// The reason as a clause.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Steps => "the budget of steps ran out",
            Self::Memory => "the limit of memory was reached",
            Self::Stopped => "it was stopped from outside",
        }
    }
}
