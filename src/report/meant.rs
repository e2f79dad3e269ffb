//! Did you mean …?

/// The candidate that `typed` was probably meant to be; none if all are too far away.
pub fn meant<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // What is typed is compared with each candidate, letter by letter.
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
    fn a_slip_of_the_finger_is_understood_and_another_word_is_not() {
        let known = ["quiet", "hung-list", "hung-container"];
        assert_eq!(meant("quite", known), Some("quiet"));
        assert_eq!(meant("hung-lsit", known), Some("hung-list"));
        assert_eq!(meant("hung-containers", known), Some("hung-container"));
        assert_eq!(meant("database", known), None);
        assert_eq!(meant(&"x".repeat(1 << 20), known), None);
    }
}
