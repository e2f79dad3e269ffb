//! Did you mean …?

/// The candidate that `typed` was probably meant to be; none if all are too far away.
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (distance(typed, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters have to be added, left out or replaced (Levenshtein).
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.chars().count()).collect();
    for (line, from) in left.chars().enumerate() {
        let mut before = line;
        let mut here = line + 1;
        for (cell, to) in row.iter_mut().skip(1).zip(right.chars()) {
            let above = *cell;
            let replaced = before + usize::from(from != to);
            here = replaced.min(above + 1).min(here + 1);
            before = above;
            *cell = here;
        }
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_understood_and_another_word_is_not() {
        let known = ["quiet", "hung-list", "hung-container"];
        assert_eq!(nearest("quite", known), Some("quiet"));
        assert_eq!(nearest("hung-lsit", known), Some("hung-list"));
        assert_eq!(nearest("hung-containers", known), Some("hung-container"));
        assert_eq!(nearest("database", known), None);
    }

    #[test]
    fn distance_counts_letters() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
