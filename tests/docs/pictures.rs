//! Checks that the pictures of the documents show what the program prints.
//!
//! After `<!-- picture: plegctl … -->`, the next line is an image. The image is an SVG of the command and its output, with
//! the colours of a terminal. After `<!-- screen: FILE -->`, the image shows a screen that the unit tests of `plegctl top`
//! keep current. `cargo xtask write docs` draws the images again.

use std::fmt::Write;
use std::fs;

use super::{masked, printed, root};
use crate::support::difference;

const PICTURE: &str = "<!-- picture: plegctl ";
const SCREEN: &str = "<!-- screen: ";
/// The width of a column and the height of a line, in pixels.
const CELL: (usize, usize) = (8, 18);
/// The space around the text.
const MARGIN: usize = 16;

const HEAD: &str = r#"<style>
rect { fill: #0d1117; stroke: #444c56 }
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #e6edf3; white-space: pre }
.bold { font-weight: bold } .dim { fill: #9198a1 } .red { fill: #ff7b72 } .green { fill: #7ee787 }
.yellow { fill: #f2cc60 } .blue { fill: #79c0ff } .magenta { fill: #d2a8ff } .cyan { fill: #76e3ea }
</style>
"#;

/// Draws lines with the escape sequences of colours.
pub fn drawn(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let columns = lines.iter().map(|line| spans(line).iter().map(|(_, text)| text.chars().count()).sum());
    let (width, height) =
        (columns.max().unwrap_or(0) * CELL.0 + 2 * MARGIN, lines.len() * CELL.1 + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         {HEAD}<rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n",
        width - 1,
        height - 1
    );
    for (row, line) in lines.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let spans = spans(line);
        let columns: usize = spans.iter().map(|(_, text)| text.chars().count()).sum();
        write!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{}\" textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\">",
            MARGIN + row * CELL.1 + 14,
            columns * CELL.0
        )
        .unwrap();
        for (class, text) in spans {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            match class.as_str() {
                "" => svg += &text,
                class => write!(svg, "<tspan class=\"{class}\">{text}</tspan>").unwrap(),
            }
        }
        svg += "</text>\n";
    }
    svg + "</svg>\n"
}

/// Returns the parts of a line, each with the classes of its colour.
fn spans(line: &str) -> Vec<(String, &str)> {
    let mut class = String::new();
    let mut spans = Vec::new();
    for (number, part) in line.split("\u{1b}[").enumerate() {
        let text = match part.split_once('m').filter(|_| number > 0) {
            Some((code, text)) => {
                class = code.split(';').map(class_of).collect::<Vec<_>>().join(" ");
                text
            }
            None => part,
        };
        if !text.is_empty() {
            spans.push((class.clone(), text));
        }
    }
    spans
}

/// Returns the class for a code of ECMA-48, *Select graphic rendition*.
fn class_of(code: &str) -> &'static str {
    match code {
        "" | "0" | "22" | "39" => "",
        "1" => "bold",
        "2" | "90" => "dim",
        "31" | "91" => "red",
        "32" | "92" => "green",
        "33" | "93" => "yellow",
        "34" | "94" => "blue",
        "35" | "95" => "magenta",
        "36" | "96" => "cyan",
        _ => panic!("a picture cannot show the code {code}"),
    }
}

/// Returns the text and the colours of a picture, without figures.
fn essence(svg: &str) -> String {
    let lines = svg.lines().filter_map(|line| line.strip_prefix("<text ")?.split_once('>'));
    let text: String = lines.map(|(_, text)| text.replace('<', " <").replace('>', "> ") + "\n").collect();
    masked(&text)
}

/// Returns a screen of `plegctl top` with the escape sequences of its colours. The file has the lines of the screen
/// and then, for each coloured part, `LINE FIRST-LAST COLOUR`.
fn screen(file: &str) -> String {
    let text = fs::read_to_string(root().join(file)).unwrap_or_else(|why| panic!("{file}: {why}"));
    let (lines, styles) = text.split_once("--- styles: line, columns\n").expect("a screen has styles");
    let mut lines: Vec<Vec<String>> =
        lines.lines().map(|line| line.chars().map(String::from).collect()).collect();
    for style in styles.lines() {
        let mut words = style.split(' ');
        let mut next = || words.next().expect("a style has a line and columns");
        let line = &mut lines[next().parse::<usize>().unwrap()];
        let (first, last) = next().split_once('-').expect("a style has columns");
        let codes: Vec<&str> = words.map(code_of).collect();
        let last = line.len().min(last.parse::<usize>().unwrap() + 1);
        let Some(coloured) = line.get_mut(first.parse().unwrap()..last) else { continue };
        let (Some(first), escape) = (coloured.first_mut(), codes.join(";")) else { continue };
        *first = format!("\u{1b}[{escape}m{first}");
        coloured.last_mut().unwrap().push_str("\u{1b}[0m");
    }
    lines.into_iter().map(|line| line.concat() + "\n").collect()
}

/// Returns the code of a colour's name.
fn code_of(name: &str) -> &'static str {
    match name {
        "bold" | "reversed" => "1",
        "darkgray" => "2",
        "red" => "31",
        "green" => "32",
        "yellow" => "33",
        "cyan" => "36",
        _ => panic!("a picture cannot show the colour {name}"),
    }
}

#[test]
fn the_pictures_show_what_the_program_prints() {
    let mut pictures = 0;
    for document in super::documents() {
        let text = fs::read_to_string(&document).unwrap();
        let of = |marker| text.split(marker).skip(1).map(move |found| (marker, found));
        for (marker, found) in of(PICTURE).chain(of(SCREEN)) {
            let (what, image) = found.split_once(" -->\n").expect("the comment ends");
            let image = image
                .split_once("](")
                .and_then(|(_, path)| path.split_once(')'))
                .expect("an image follows")
                .0;
            let path = document.parent().unwrap().join(image);
            let fresh = drawn(&match marker {
                PICTURE => format!(
                    "\u{1b}[1m$ plegctl {what}\u{1b}[0m\n{}",
                    printed(&format!("{what} --color always"), None)
                ),
                _ => screen(what),
            });
            let kept = fs::read_to_string(&path).unwrap_or_default();
            pictures += 1;
            if essence(&kept) == essence(&fresh) {
                continue;
            }
            let changed = difference::difference(&essence(&kept), &essence(&fresh));
            assert!(difference::update_if_blessed(&path, &fresh), "{}:\n{changed}", path.display());
        }
    }
    assert!(pictures > 1, "the documents in {} have too few pictures", root().display());
}

#[test]
fn a_picture_has_the_text_and_the_colours_of_the_terminal() {
    let svg = drawn("\u{1b}[31mBAD\u{1b}[0m  a < b\n\n\u{1b}[2min 3 s\u{1b}[0m\n");
    for part in [
        "width=\"112\" height=\"86\"",
        "y=\"30\" textLength=\"80\" lengthAdjust=\"spacingAndGlyphs\"><tspan class=\"red\">BAD</tspan>  a &lt; b</text>",
        "y=\"66\" textLength=\"48\"",
    ] {
        assert!(svg.contains(part), "{svg}");
    }
    assert_eq!(
        essence(&svg),
        essence(&drawn("\u{1b}[31mBAD\u{1b}[0m  a < b\n\n\u{1b}[2min 44 s\u{1b}[0m\n"))
    );
    assert_ne!(essence(&svg), essence(&drawn("\u{1b}[33mBAD\u{1b}[0m  a < b\n\n\u{1b}[2min 3 s\u{1b}[0m\n")));
}
