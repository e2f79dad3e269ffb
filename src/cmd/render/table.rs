//! Prints tables as kubectl does: headers in upper case, no borders, three spaces between columns.

use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};

use super::Style;
use super::words::{cut, wrapped};
use crate::report::escape::escaped;

/// Prints `rows` under `headers`. Each cell is escaped here, so that no text from outside reaches a terminal in another way.
pub fn write(
    out: &mut dyn Write,
    style: Style,
    headers: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if style.headers {
        table.set_header(headers.to_vec());
    }
    for row in rows {
        table.add_row(row.iter().map(|cell| escaped(cell)));
    }
    table.discover_columns();
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Replaces the content of a terminal of this size with what `print` prints: the first lines, each cut to one row, and
/// the last line.
pub fn in_place(
    (rows, columns): (usize, usize),
    out: &mut dyn Write,
    print: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut text = Vec::new();
    print(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let mut lines: Vec<&str> = text.trim_end().lines().collect();
    let last = wrapped(lines.pop().unwrap_or_default(), columns, "  ");
    // The cursor needs a row too.
    let room = rows.saturating_sub(last.len() + 1);
    let mut shown: Vec<String> = lines.iter().map(|line| cut(line, columns)).collect();
    if shown.len() > room {
        shown.truncate(room.saturating_sub(1));
        shown.push(cut(&format!("… {} more lines", lines.len() - shown.len()), columns));
    }
    shown.extend(last);
    write!(out, "\u{1b}[H")?;
    shown.iter().try_for_each(|line| writeln!(out, "{line}\u{1b}[K"))?;
    write!(out, "\u{1b}[J")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_table_in_place_never_scrolls_the_terminal_and_keeps_its_last_line() {
        let shown = |rows: usize| {
            let mut out = Vec::new();
            let print =
                |out: &mut dyn Write| write!(out, "HEAD\none is a long line\ntwo\nthree\n\nlast line\n");
            in_place((rows, 10), &mut out, print).unwrap();
            String::from_utf8(out).unwrap().replace("\u{1b}[K", "")
        };
        assert_eq!(shown(9), "\u{1b}[HHEAD\none is a …\ntwo\nthree\n\nlast line\n\u{1b}[J");
        assert_eq!(shown(5), "\u{1b}[HHEAD\none is a …\n… 3 more …\nlast line\n\u{1b}[J");
    }

    use super::*;

    fn written(headers: bool) -> String {
        let mut out = Vec::new();
        let rows = [vec!["a".to_owned(), "long one".to_owned()], vec!["bb".to_owned(), "c".to_owned()]];
        write(&mut out, Style { headers, color: false }, &["NAME", "STATE"], rows).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_three_spaces_apart_and_lines_end_where_the_text_ends() {
        assert_eq!(written(true), "NAME   STATE\na      long one\nbb     c\n");
    }

    #[test]
    fn cells_cannot_control_the_terminal() {
        let mut out = Vec::new();
        write(
            &mut out,
            Style { headers: false, color: false },
            &["A"],
            [vec!["\u{1b}[2Ja\u{202e}b\nc".to_owned()]],
        )
        .unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "\\u{1b}[2Ja\\u{202e}b\\nc\n");
    }

    #[test]
    fn headers_can_be_left_out() {
        assert_eq!(written(false), "a    long one\nbb   c\n");
    }
}
