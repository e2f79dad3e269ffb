//! [`CheckRow`], and a macro for the tables of checks that read files: of static pods, and of a kubelet's start.

use super::{Rule, Severity};

/// One row: the section, the severity and the explanation of a check.
#[derive(Debug)]
pub struct CheckRow {
    /// The section in which the check is listed.
    pub section: &'static str,
    /// The usual severity of its findings; a single finding may be less severe.
    pub severity: Severity,
    /// The texts of the check: the id, the title and the explanation that `explain` prints. The checks and the rules of
    /// the diagnosis have the same kinds of texts, so both use the type [`Rule`].
    pub rule: &'static Rule,
}

/// Defines the enum of the checks in a table. `$texts` is the file with the texts of the checks.
#[macro_export]
macro_rules! check_table {
    ($(#[$description:meta])* $checks:ident $texts:literal $($section:literal {
        $($name:ident $id:literal $severity:ident;)*
    })*) => {
        $(#[$description])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $checks {
            $($(
                #[doc = $id]
                $name,
            )*)*
        }

        impl $checks {
            /// All checks, by number.
            pub const ALL: &[Self] = &[$($(Self::$name),*),*];

            /// Returns the row of the table.
            pub fn row(self) -> $crate::report::CheckRow {
                use $crate::report::{Rule, Severity};
                static RULES: std::sync::LazyLock<Vec<Rule>> =
                    std::sync::LazyLock::new(|| Rule::table(include_str!($texts)));
                let rule = RULES.iter().find(|rule| rule.id == self.id()).unwrap_or(Rule::MISSING);
                let (section, severity) = match self {
                    $($(Self::$name => ($section, Severity::$severity),)*)*
                };
                $crate::report::CheckRow { section, severity, rule }
            }

            /// Returns the check with this id, in upper or lower case.
            pub fn named(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|check| check.id().eq_ignore_ascii_case(text))
            }

            /// Returns the id as it is printed.
            pub const fn id(self) -> &'static str {
                match self {
                    $($(Self::$name => $id,)*)*
                }
            }
        }

        impl std::fmt::Display for $checks {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.id())
            }
        }

        impl serde::Serialize for $checks {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.id())
            }
        }

        impl<'de> serde::Deserialize<'de> for $checks {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let id = String::deserialize(deserializer)?;
                Self::named(&id).ok_or_else(|| serde::de::Error::custom("not a check that this release knows"))
            }
        }

        #[cfg(any(test, feature = "testing"))]
        impl schemars::JsonSchema for $checks {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($checks).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string"})
            }
        }
    };
}
