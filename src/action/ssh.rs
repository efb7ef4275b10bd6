//! The typed remote command and its template.
//!
//! An argv, quoted for the remote POSIX shell argument by argument when it becomes a command line, and not before.

/// One remote command, ready to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshAction {
    /// Where; a literal of the configuration.
    pub host: String,
    /// Program and arguments, free of NUL.
    pub argv: Vec<String>,
    /// Variables set on the command line, in order.
    pub env: Vec<(String, String)>,
    /// Remote working directory; the login's own if absent.
    pub cwd: Option<String>,
    /// What the command reads; empty: end of file at once.
    pub stdin: Vec<u8>,
}
