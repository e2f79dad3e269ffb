//! Prints tables as kubectl does: upper-case headers, no borders, three spaces.

use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};

use super::Style;

/// Prints `rows` under `headers`. Cells must already be free of escape sequences.
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
        table.add_row(row);
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

#[cfg(test)]
mod tests {
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
    fn headers_can_be_left_out() {
        assert_eq!(written(false), "a    long one\nbb   c\n");
    }
}
