//! Revisions, eras, and where a request came from.
//!
//! An era belongs to a request, not to the process: both are served side by side.

use crate::rpc::id::Id;

/// A revision of the protocol, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// 2024-11-05
    V2024_11_05,
    /// 2025-03-26
    V2025_03_26,
    /// 2025-06-18
    V2025_06_18,
    /// 2025-11-25
    V2025_11_25,
    /// 2026-07-28, the first without a handshake
    V2026_07_28,
}

impl Revision {
    /// All we speak, newest first: the order in which they are announced.
    pub const ALL: [Revision; 5] =
        [Revision::V2026_07_28, Revision::V2025_11_25, Revision::V2025_06_18, Revision::V2025_03_26, Revision::V2024_11_05];
    /// The newest with a handshake: what `initialize` agrees on unless an older one was asked for.
    pub const NEWEST_LEGACY: Revision = Revision::V2025_11_25;

    /// As it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Revision::V2024_11_05 => "2024-11-05",
            Revision::V2025_03_26 => "2025-03-26",
            Revision::V2025_06_18 => "2025-06-18",
            Revision::V2025_11_25 => "2025-11-25",
            Revision::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision written so, if we speak it.
    pub fn parse(text: &str) -> Option<Revision> {
        Revision::ALL.into_iter().find(|revision| revision.as_str() == text)
    }

    /// Whether it begins with a handshake.
    pub fn is_legacy(self) -> bool {
        self <= Revision::NEWEST_LEGACY
    }
}

/// How one request is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// By the session's handshake, which agreed on this revision. Before any, the oldest: the narrowest shape.
    Legacy(Revision),
    /// Statelessly, by what the request itself says.
    Modern,
}

impl Era {
    /// The revision whose shape the answer takes.
    pub fn revision(self) -> Revision {
        match self {
            Era::Legacy(revision) => revision,
            Era::Modern => Revision::V2026_07_28,
        }
    }
}

/// Whom a reply goes to and in which shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The request's id.
    pub id: Id,
    /// How it is served.
    pub era: Era,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_announced_newest_first() {
        assert!(Revision::ALL.windows(2).all(|pair| pair[0] > pair[1]));
        for revision in Revision::ALL {
            assert_eq!(Revision::parse(revision.as_str()), Some(revision));
            assert_eq!(revision.is_legacy(), revision != Revision::V2026_07_28);
        }
        for text in ["", "2024-10-07", "2030-01-01", "2025-11-25 ", "x"] {
            assert_eq!(Revision::parse(text), None, "{text}");
        }
    }
}
