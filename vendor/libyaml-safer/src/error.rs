pub type Result<T, E = Error> = core::result::Result<T, E>;

/// The pointer position.
#[derive(Copy, Clone, Default, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mark {
    /// The position index.
    pub index: u64,
    /// The position line.
    pub line: u64,
    /// The position column.
    pub column: u64,
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {} column {}", self.line + 1, self.column + 1)
    }
}

#[derive(Debug)]
struct Problem {
    pub what: &'static str,
    pub at: Mark,
    pub context: &'static str,
    pub context_mark: Mark,
}

#[derive(Debug)]
enum ErrorImpl {
    Reader {
        problem: &'static str,
        offset: usize,
        value: i32,
    },
    Scanner(Problem),
    Parser(Problem),
    Io(std::io::Error),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    Reader,
    Scanner,
    Parser,
    Io,
}

#[derive(Debug)]
pub struct Error(Box<ErrorImpl>);

impl From<std::io::Error> for Error {
    fn from(value: std::io::Error) -> Self {
        Self(Box::new(ErrorImpl::Io(value)))
    }
}

impl Error {
    pub(crate) fn reader(problem: &'static str, offset: usize, value: i32) -> Self {
        Self(Box::new(ErrorImpl::Reader {
            problem,
            offset,
            value,
        }))
    }

    pub(crate) fn scanner(
        context: &'static str,
        context_mark: Mark,
        problem: &'static str,
        problem_mark: Mark,
    ) -> Self {
        Self(Box::new(ErrorImpl::Scanner(Problem {
            what: problem,
            at: problem_mark,
            context,
            context_mark,
        })))
    }

    pub(crate) fn parser(
        context: &'static str,
        context_mark: Mark,
        problem: &'static str,
        problem_mark: Mark,
    ) -> Self {
        Self(Box::new(ErrorImpl::Parser(Problem {
            what: problem,
            at: problem_mark,
            context,
            context_mark,
        })))
    }

    pub fn kind(&self) -> ErrorKind {
        match &*self.0 {
            ErrorImpl::Reader { .. } => ErrorKind::Reader,
            ErrorImpl::Scanner(_) => ErrorKind::Scanner,
            ErrorImpl::Parser(_) => ErrorKind::Parser,
            ErrorImpl::Io(_) => ErrorKind::Io,
        }
    }

    pub fn problem_mark(&self) -> Option<Mark> {
        match &*self.0 {
            ErrorImpl::Reader { .. } | ErrorImpl::Io(_) => None,
            ErrorImpl::Scanner(p) | ErrorImpl::Parser(p) => {
                Some(p.at)
            }
        }
    }

    pub fn context_mark(&self) -> Option<Mark> {
        match &*self.0 {
            ErrorImpl::Reader { .. } | ErrorImpl::Io(_) => None,
            ErrorImpl::Scanner(p) | ErrorImpl::Parser(p) => {
                if p.context.is_empty() {
                    None
                } else {
                    Some(p.context_mark)
                }
            }
        }
    }

    pub fn problem(&self) -> &'static str {
        match &*self.0 {
            ErrorImpl::Reader { problem, .. } => problem,
            ErrorImpl::Scanner(p) | ErrorImpl::Parser(p) => p.what,
            ErrorImpl::Io(_) => "I/O error",
        }
    }

    pub fn context(&self) -> Option<&'static str> {
        match &*self.0 {
            ErrorImpl::Reader { .. } | ErrorImpl::Io(_) => None,
            ErrorImpl::Scanner(p) | ErrorImpl::Parser(p) => {
                if p.context.is_empty() {
                    None
                } else {
                    Some(p.context)
                }
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let ErrorImpl::Io(err) = &*self.0 {
            Some(err)
        } else {
            None
        }
    }
}

impl TryFrom<Error> for std::io::Error {
    type Error = Error;

    fn try_from(value: Error) -> Result<Self, Self::Error> {
        if value.kind() == ErrorKind::Io {
            if let ErrorImpl::Io(err) = *value.0 {
                Ok(err)
            } else {
                unreachable!()
            }
        } else {
            Err(value)
        }
    }
}

impl core::fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ErrorKind::Reader => "Reader",
            ErrorKind::Scanner => "Scanner",
            ErrorKind::Parser => "Parser",
            ErrorKind::Io => "I/O",
        })
    }
}

impl core::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            what,
            at,
            context,
            context_mark,
        } = self;

        if self.context.is_empty() {
            write!(f, "{at}: {what}")
        } else {
            write!(f, "{at}: {what} {context} ({context_mark})")
        }
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} error: ", self.kind())?;
        match *self.0 {
            ErrorImpl::Reader {
                problem,
                offset,
                value,
            } => write!(f, "{problem} (offset {offset}, value {value})"),
            ErrorImpl::Scanner(ref p) | ErrorImpl::Parser(ref p) => {
                write!(f, "{p}")
            }
            ErrorImpl::Io(ref err) => write!(f, "{err}"),
        }
    }
}
