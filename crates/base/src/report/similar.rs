//! Suggests the known name that is most similar to a misspelt name.

/// Returns the candidate that is most similar to `typed`; `None` if no candidate is similar.
pub fn most_similar<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer name is cut before it is compared, because the comparison time grows with its length.
    const LONGEST: usize = 64;
    let typed: String = typed.chars().take(LONGEST).collect();
    candidates
        .into_iter()
        .map(|candidate| (strsim::levenshtein(&typed, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_gets_a_suggestion_and_a_different_word_none() {
        let known = ["quiet", "hung-list", "hung-container"];
        assert_eq!(most_similar("quite", known), Some("quiet"));
        assert_eq!(most_similar("hung-lsit", known), Some("hung-list"));
        assert_eq!(most_similar("hung-containers", known), Some("hung-container"));
        assert_eq!(most_similar("database", known), None);
        assert_eq!(most_similar(&"x".repeat(1 << 20), known), None);
    }
}
