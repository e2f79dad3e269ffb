//! Updates a committed file if `PLEGCTL_BLESS=1`, and shows the difference.

use std::path::Path;
use std::{env, fs};

/// If `PLEGCTL_BLESS` is set, writes `fresh` to `path` and prints the difference, if there is one.
/// Returns whether the variable is set.
pub fn update_if_blessed(path: &Path, fresh: &str) -> bool {
    if env::var_os("PLEGCTL_BLESS").is_none() {
        return false;
    }
    let before = fs::read_to_string(path).unwrap_or_default();
    if before != fresh {
        println!("{}:\n{}", path.display(), difference(&before, fresh));
        fs::create_dir_all(path.parent().expect("a file is in a directory")).unwrap();
        fs::write(path, fresh).unwrap();
    }
    true
}

/// Returns the removed lines with a `-` and the added lines with a `+`.
pub fn difference(before: &str, after: &str) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| {
        pairs.take_while(|(one, other)| one == other).count()
    };
    let front = same(&mut before.iter().zip(&after));
    let rest = before.len().min(after.len()) - front;
    let back = same(&mut before.iter().rev().zip(after.iter().rev()).take(rest));
    let gone = before[front..before.len() - back].iter().map(|line| format!("-{line}\n"));
    let new = after[front..after.len() - back].iter().map(|line| format!("+{line}\n"));
    format!("@@ line {} @@\n", front + 1) + &gone.chain(new).collect::<String>()
}

#[test]
fn difference_shows_only_different_lines() {
    assert_eq!(difference("a\nb\nc\n", "a\nx\ny\nc\n"), "@@ line 2 @@\n-b\n+x\n+y\n");
    assert_eq!(difference("a\na\n", "a\na\na\n"), "@@ line 3 @@\n+a\n");
}
