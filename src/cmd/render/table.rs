//! Prints tables as kubectl does: headers in upper case, no borders, three spaces between columns.

use std::io;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};

use super::page::Page;
use crate::report::escape::escaped;

/// Prints `rows` under `headers`. Each cell is escaped before its width is measured.
pub fn write(
    out: &mut Page<'_>,
    headers: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if out.style().headers {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::render::Style;
    use crate::cmd::render::page::tests::{HOSTILE, SHOWN, printed};

    fn written(headers: bool, rows: impl IntoIterator<Item = Vec<String>>) -> String {
        printed(Style { headers, color: false }, |page| write(page, &["NAME", "STATE"], rows))
    }

    fn rows() -> [Vec<String>; 2] {
        [vec!["a".to_owned(), "long one".to_owned()], vec!["bb".to_owned(), "c".to_owned()]]
    }

    #[test]
    fn columns_are_three_spaces_apart_and_lines_end_where_the_text_ends() {
        assert_eq!(written(true, rows()), "NAME   STATE\na      long one\nbb     c\n");
    }

    #[test]
    fn the_width_of_a_column_is_that_of_its_escaped_cells() {
        let rows = [vec![HOSTILE.to_owned(), "x".to_owned()]];
        assert_eq!(written(false, rows), format!("{SHOWN}   x\n"));
    }

    #[test]
    fn headers_can_be_left_out() {
        assert_eq!(written(false, rows()), "a    long one\nbb   c\n");
    }
}
