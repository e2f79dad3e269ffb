//! Formats numbers with nouns.

use std::fmt::Display;

/// Formats a number and its noun: `1 pod`, `2 pods`, `3 processes`, `4 entries`.
pub fn plural<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let is_one = count == N::from(1);
    with_noun(&count, is_one, noun)
}

fn with_noun(count: &dyn Display, is_one: bool, noun: &str) -> String {
    match noun.strip_suffix("try") {
        _ if is_one => format!("{count} {noun}"),
        Some(stem) => format!("{count} {stem}tries"),
        None if noun.ends_with(['s', 'x']) => format!("{count} {noun}es"),
        None => format!("{count} {noun}s"),
    }
}

/// Writes a number with a separator before each three digits.
pub fn grouped(number: u64, separator: char) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(separator);
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noun_follows_its_number() {
        assert_eq!(plural(1_usize, "hung call"), "1 hung call");
        assert_eq!(plural(0_usize, "sandbox"), "0 sandboxes");
        assert_eq!(plural(2_u64, "process"), "2 processes");
        assert_eq!(plural(3_u64, "entry"), "3 entries");
    }
}
