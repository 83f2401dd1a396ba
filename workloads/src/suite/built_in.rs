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

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        &[$(BuiltIn { name: $name, text: include_str!(concat!("../../suites/", $name, ".toml")) }),+]
    };
}

/// All of them, the default first. To add one: write its file, and name it here.
pub const BUILT_IN: &[BuiltIn] = files![
    "default",
    "containers",
    "etcd-postgres",
    "etcd-unfenced",
    "etcd-header-token",
    "etcd-etcd",
    "postgres-postgres",
    "postgres-advisory",
    "postgres-select-then-update",
    "teeth",
    "teeth-race",
    "teeth-restart",
    "teeth-late",
    "teeth-quiet",
    "teeth-31-bits",
    "teeth-53-bits",
    "teeth-paths",
    "teeth-keys",
    "teeth-dead",
    "teeth-between",
    "teeth-retry",
    "teeth-identity",
    "alt-cas",
    "alt-routing",
    "alt-unrouted",
    "alt-webhook",
    "alt-webhook-unkeyed",
    "alt-shared-file",
    "alt-stonith",
];

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
