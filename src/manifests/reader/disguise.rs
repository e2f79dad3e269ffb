//! Keeps from the scanner what it cannot bear, without changing what the file says.

/// The text with the commas in and after tags disguised.
///
/// go-yaml reads `!tag,` as a tag that ends in a comma. libyaml-safer 0.3 gives up there in a way that cannot be
/// caught, so no comma may follow a tag directly. Where a tag surely starts, its commas become a character that occurs
/// nowhere else; behind any other `!` a blank goes before the comma, which changes nothing but quoted and block text,
/// and that is restored.
pub struct Disguise {
    /// The text to parse.
    pub text: String,
    stand_in: char,
    blank: &'static str,
}

impl Disguise {
    /// The text disguised, if there is anything to hide.
    pub fn of(text: &str) -> Option<Self> {
        let stand_in =
            [';', '~', '$', '@', '+', '('].into_iter().find(|candidate| !text.contains(*candidate));
        let stand_in = stand_in.unwrap_or('\u{e000}');
        let blanks = ["\t,", " \t,", "\t\t,", " \t \t,", "\t \t \t,"];
        let blank = blanks.into_iter().find(|blank| !text.contains(blank)).unwrap_or("\t  \t,");
        let mut hidden = String::new();
        let mut found = false;
        let mut run = Run::None;
        let mut may_start = true;
        for character in text.chars() {
            run = match (character, run) {
                ('!', Run::None) if may_start => Run::Tag,
                ('!', Run::None) => Run::Maybe,
                (other, _) if other.is_whitespace() => Run::None,
                (_, run) => run,
            };
            match (character, run) {
                (',', Run::Tag) => {
                    found = true;
                    hidden.push(stand_in);
                }
                (',', Run::Maybe) => {
                    found = true;
                    hidden.push_str(blank);
                    run = Run::None;
                }
                _ => hidden.push(character),
            }
            may_start = match character {
                ' ' | '\t' => may_start,
                '\n' | '\r' | '[' | '{' | ',' | ':' | '-' | '?' | '\'' | '"' => true,
                _ => false,
            };
        }
        found.then_some(Self { text: hidden, stand_in, blank })
    }

    /// A value as the file has it.
    pub fn restore(&self, value: &str) -> String {
        value.replace(self.blank, ",").replace(self.stand_in, ",")
    }
}

/// What the characters since the last blank are.
#[derive(Clone, Copy)]
enum Run {
    /// Nothing with a `!`.
    None,
    /// A tag.
    Tag,
    /// A `!` that may be a tag or part of a text.
    Maybe,
}
