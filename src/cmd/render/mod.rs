//! Formats reports as text. A renderer gets a report and a [`page`]; it decides nothing.

pub mod capture;
pub mod capture_html;
pub mod diff;
pub mod github;
pub mod health;
pub mod incidents;
pub mod lint;
pub mod nodes;
pub mod page;
pub mod pod_why;
pub mod pods;
pub mod preflight;
pub mod relist;
pub mod sarif;
pub mod sim;
pub mod source;
pub mod stacks;
pub mod table;
pub mod watch;
pub mod words;
pub mod yaml;

pub(crate) use crate::report::json;

/// The style of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether tables have headers.
    pub headers: bool,
    /// Whether colour is used.
    pub color: bool,
}

/// The style of text in files and on pages.
pub const PLAIN: Style = Style { headers: true, color: false };
