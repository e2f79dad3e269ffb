//! Prints tables as kubectl does: headers in upper case, no borders, three spaces between columns. A table is a list of
//! [`Column`]s, each with all that is special about it.

use std::borrow::Cow;
use std::io;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};

use super::Style;
use super::page::Page;
use super::words::{NONE, width};
use crate::report::escape::escaped;

/// The number of spaces between columns.
pub const GAP: u16 = 3;

/// Returns the text of a row's cell.
type CellText<'a, R> = Box<dyn Fn(&R) -> Option<String> + 'a>;

/// A column of a table with a row for each `R`.
pub struct Column<'a, R> {
    header: Cow<'a, str>,
    text: CellText<'a, R>,
    is_shown: bool,
    may_be_empty: bool,
    leaves: Option<u8>,
}

impl<'a, R> Column<'a, R> {
    /// Creates a column from its header and the text of a row's cell; a cell without a text is `<none>`.
    pub fn new<T: Into<Option<String>>>(
        header: impl Into<Cow<'a, str>>,
        cell: impl Fn(&R) -> T + 'a,
    ) -> Self {
        let text = Box::new(move |row: &R| cell(row).into().filter(|text| !text.is_empty()));
        Self { header: header.into(), text, is_shown: true, may_be_empty: true, leaves: None }
    }

    /// Shows the column only if `is_shown`, for example in the wide table.
    pub fn shown_if(self, is_shown: bool) -> Self {
        Self { is_shown, ..self }
    }

    /// Leaves the column out if no row has a text for it.
    pub fn unless_empty(self) -> Self {
        Self { may_be_empty: false, ..self }
    }

    /// Lets the column leave a table that is wider than its terminal. The lowest number leaves first.
    pub fn leaves(self, order: u8) -> Self {
        Self { leaves: Some(order), ..self }
    }
}

/// A column with its cells, as they are printed.
pub struct FilledColumn {
    /// The header, if headers are printed.
    header: Option<String>,
    pub cells: Vec<String>,
    /// The place in the order in which columns leave a table that is too wide; `None` if this column stays.
    pub leaves: Option<u8>,
}

impl FilledColumn {
    /// Returns the number of terminal columns.
    pub fn width(&self) -> usize {
        self.header.iter().chain(&self.cells).map(|text| width(text)).max().unwrap_or_default()
    }
}

/// Fills the columns that are shown.
pub fn filled<'r, R: 'r>(
    columns: Vec<Column<'_, R>>,
    rows: impl IntoIterator<Item = &'r R>,
    style: Style,
) -> Vec<FilledColumn> {
    let rows: Vec<&R> = rows.into_iter().collect();
    let filled = columns.into_iter().filter(|column| column.is_shown).filter_map(|column| {
        let texts: Vec<Option<String>> = rows.iter().map(|row| (column.text)(row)).collect();
        let is_kept = column.may_be_empty || texts.iter().any(Option::is_some);
        is_kept.then(|| FilledColumn {
            header: style.headers.then(|| column.header.into_owned()),
            cells: texts.into_iter().map(|text| text.unwrap_or_else(|| NONE.to_owned())).collect(),
            leaves: column.leaves,
        })
    });
    filled.collect()
}

/// Prints a table with one row for each of `rows`.
pub fn write<'r, R: 'r>(
    out: &mut Page<'_>,
    columns: Vec<Column<'_, R>>,
    rows: impl IntoIterator<Item = &'r R>,
) -> io::Result<()> {
    print(out, &filled(columns, rows, out.style()))
}

/// Prints columns side by side.
pub fn print(out: &mut Page<'_>, columns: &[FilledColumn]) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let mut texts: Vec<_> = columns.iter().map(|column| column.header.iter().chain(&column.cells)).collect();
    let lines = columns.first().map_or(0, |column| usize::from(column.header.is_some()) + column.cells.len());
    for _ in 0..lines {
        table.add_row(texts.iter_mut().filter_map(|texts| Some(escaped(texts.next()?))));
    }
    table.discover_columns();
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
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

    type Row = (&'static str, Option<&'static str>);

    fn columns() -> Vec<Column<'static, Row>> {
        vec![
            Column::new("NAME", |(name, _): &Row| (*name).to_owned()),
            Column::new("STATE", |(_, state): &Row| state.map(str::to_owned)),
        ]
    }

    fn written(headers: bool, columns: Vec<Column<'_, Row>>, rows: &[Row]) -> String {
        printed(Style { headers, color: false }, |page| write(page, columns, rows))
    }

    const ROWS: [Row; 2] = [("a", Some("long one")), ("bb", Some("c"))];

    #[test]
    fn columns_are_three_spaces_apart_and_lines_end_where_the_text_ends() {
        assert_eq!(written(true, columns(), &ROWS), "NAME   STATE\na      long one\nbb     c\n");
    }

    #[test]
    fn the_width_of_a_column_is_that_of_its_escaped_cells() {
        let rows = [(HOSTILE, Some("x"))];
        assert_eq!(written(false, columns(), &rows), format!("{SHOWN}   x\n"));
        let filled = filled(columns(), &rows, Style { headers: false, color: false });
        assert_eq!(filled[0].width(), SHOWN.len());
    }

    #[test]
    fn headers_can_be_left_out() {
        assert_eq!(written(false, columns(), &ROWS), "a    long one\nbb   c\n");
    }

    #[test]
    fn a_cell_without_a_text_is_none_and_a_column_without_any_can_be_left_out() {
        let rows = [("a", None), ("", Some("c"))];
        assert_eq!(written(true, columns(), &rows), "NAME     STATE\na        <none>\n<none>   c\n");
        let without_empty = || columns().into_iter().map(Column::unless_empty).collect::<Vec<_>>();
        assert_eq!(written(true, without_empty(), &rows[..1]), "NAME\na\n");
        assert_eq!(written(true, without_empty(), &[("a", Some(""))]), "NAME\na\n");
        assert_eq!(written(true, columns(), &rows[..1]), "NAME   STATE\na      <none>\n");
    }

    #[test]
    fn a_column_is_shown_only_if_its_condition_is_true() {
        let wide = |is_wide: bool| {
            columns().into_iter().map(|column| column.shown_if(is_wide)).chain(columns()).collect::<Vec<_>>()
        };
        assert_eq!(written(true, wide(false), &ROWS[1..]), "NAME   STATE\nbb     c\n");
        assert_eq!(
            written(true, wide(true), &ROWS[1..]),
            "NAME   STATE   NAME   STATE\nbb     c       bb     c\n"
        );
    }
}
