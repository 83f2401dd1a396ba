//! The suites that come with the binary.

use super::Suite;

/// A suite that comes with the binary.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// Its file, to print and to start from.
    pub text: &'static str,
}

/// All of them, the default first.
pub const BUILT_IN: &[BuiltIn] = &[BuiltIn {
    name: "default",
    text: include_str!("../../suites/default.toml"),
}];

/// The built-in suite called `name`.
#[must_use]
pub fn built_in(name: &str) -> Option<BuiltIn> {
    BUILT_IN.iter().copied().find(|suite| suite.name == name)
}

impl BuiltIn {
    /// The suite itself.
    ///
    /// # Panics
    /// Never: a test reads every built-in suite.
    #[must_use]
    pub fn suite(self) -> Suite {
        Suite::parse(self.text, &format!("built-in suite {}", self.name))
            .expect("built-in suites are tested to parse")
    }
}
