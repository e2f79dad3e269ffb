//! The explanation of a rule, a check or a signature, which rendering, documents and `explain` use.

/// One row of a catalogue. Each catalogue is in the module that applies its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The id: `D01`, `SP053`, `ST01`.
    pub id: &'static str,
    /// A short title.
    pub title: &'static str,
    /// The meaning for the node.
    pub means: &'static str,
    /// The symptoms.
    pub shows: &'static str,
    /// Commands and places that confirm the finding.
    pub confirm: &'static [&'static str],
    /// Conclusions that must not be drawn.
    pub never: &'static [&'static str],
    /// The steps to take, in order.
    pub act: &'static [&'static str],
}
