//! Reports as text: each renderer takes data and a writer, and decides nothing.

pub mod capture;
pub mod capture_html;
pub mod diff;
pub mod github;
pub mod health;
pub mod lint;
pub mod nodes;
pub mod pods;
pub mod relist;
pub mod sarif;
pub mod sim;
pub mod stacks;
pub mod table;
pub mod watch;
pub mod words;
pub mod yaml;

pub(crate) use crate::report::json;

/// How text is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether tables have headers.
    pub headers: bool,
    /// Whether colour may help.
    pub color: bool,
}
