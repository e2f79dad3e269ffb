//! Formats reports as text, as far as several commands need it; the text of a single command is in its folder. A renderer
//! gets a report and a [`page`]; it decides nothing.

pub mod capture;
pub mod health;
pub mod markdown;
pub mod page;
pub mod preflight;
pub mod sarif;
pub mod source;
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
