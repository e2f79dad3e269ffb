//! [`Severity`]: how severe a finding is.

use super::word_enum;

word_enum! {
    /// The severity of a finding. The most severe level is the greatest.
    #[derive(PartialOrd, Ord, Hash)]
    pub json enum Severity: as_str {
        /// Information; nothing is wrong.
        Info = "info",
        /// Probably a mistake or a risk.
        Warning = "warning",
        /// The kubelet rejects, ignores or stops a manifest.
        Error = "error",
        /// The node is affected or will soon be.
        Critical = "critical",
    }
}
