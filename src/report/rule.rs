//! What is known of a rule, a check or a signature: one row that rendering, documents and `explain` read.

/// One row of a catalogue. The catalogues themselves live with what judges by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its id as it is printed: `D01`, `SP053`, `ST01`.
    pub id: &'static str,
    /// What it is about, in a few words.
    pub title: &'static str,
    /// What it means for the node.
    pub means: &'static str,
    /// How it shows.
    pub shows: &'static str,
    /// What to run or to look at to confirm it.
    pub confirm: &'static [&'static str],
    /// What must not be concluded from it.
    pub never: &'static [&'static str],
    /// What to do about it, in order.
    pub act: &'static [&'static str],
}
