//! JSON Schema 2020-12: compiles the schemas of tool arguments and of the configuration, and checks values against them.
//!
//! What is not supported (remote documents, `$dynamicRef`, other dialects, look-around in patterns) is refused when the
//! schema is compiled: a keyword is either enforced or an error, never silently passed over. `format`, `contentEncoding`
//! and their kin are annotations, as the 2020-12 dialect has them by default.
//!
//! It must never read a file or open a connection, quote more than a short piece of a checked value (it may be a secret),
//! or call a value valid whose check ran out of steps or depth.

mod branch;
mod compile;
mod container;
mod keyword;
mod number;
mod pattern;
mod reference;
mod rule;
mod text;
mod uri;
mod validate;
mod value;

use std::fmt;

use serde_json::Value;

use self::rule::{Node, NodeId};
use crate::action::json::Json;

/// Subschemas in one document: far above any real tool, small enough that compiling stays below some tens of milliseconds.
const SUBSCHEMAS_MAX: usize = 10_000;
/// Nesting of subschemas, and of values in `enum` and `const`: what the strict JSON pass allows a whole message.
const NESTING_MAX: usize = 64;
/// Problems reported for one schema: more are consequences of the first, or noise.
const ERRORS_MAX: usize = 32;
/// Length of a written pattern: parsing memory of the regex crate grows with it.
const PATTERN_CHARS_MAX: usize = 4_096;
/// Largest compiled pattern, about 4,000 states: bounds the work for one character of text.
const PATTERN_BYTES_MAX: usize = 128 * 1024;
/// All compiled patterns of one schema together: a hostile upstream must not cost more memory than a large message.
const PATTERNS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Violations collected before the check stops: what a caller can act on in one go.
const VIOLATIONS_MAX: usize = 8;
/// Steps of one validation. A step is some 20 ns (70 ns for a byte under a pattern, 600 ns under the worst one), so a check
/// ends within a tenth of a second, with a hostile schema within one; ordinary arguments take a few hundred steps.
const STEPS_MAX: u64 = 1_000_000;
/// Nested applications of subschemas and nested containers compared: 64 levels of arguments take two or three each in
/// a recursive schema, and 128 levels fit a 2 MiB stack several times over in a debug build.
const DEPTH_MAX: u32 = 128;
/// Characters of a name or pattern quoted in a message.
const QUOTE_CHARS_MAX: usize = 64;
/// Characters of a list (accepted names, enum members) in a message.
const LIST_CHARS_MAX: usize = 200;
/// Bytes of a resolved `$id`: one is kept for each resource and each reference.
const URI_BYTES_MAX: usize = 1_024;
/// Bytes of a JSON Pointer in a message.
const POINTER_BYTES_MAX: usize = 1_024;

/// What to do with a keyword that 2020-12 does not define and that does not begin with `x-`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// An error that names the nearest known keyword: a misspelt check must not silently vanish.
    Refuse,
    /// Passed over, as the specification has it.
    Ignore,
}

/// A compiled schema. Checking takes `&self`, so one serves all workers.
pub struct Schema {
    nodes: Vec<Node>,
    root: NodeId,
}

impl Schema {
    /// Compiles a schema and refuses unknown keywords.
    ///
    /// # Errors
    /// Every problem found, at most 32; never an empty list.
    pub fn compile(schema: &Value) -> Result<Schema, Vec<SchemaError>> {
        Schema::compile_with(schema, Unknown::Refuse)
    }

    /// Compiles a schema with a say in what unknown keywords do.
    ///
    /// # Errors
    /// As [`Schema::compile`].
    pub fn compile_with(schema: &Value, unknown: Unknown) -> Result<Schema, Vec<SchemaError>> {
        compile::compile(schema, unknown)
    }

    /// Checks a value; allocates nothing while the value is valid and small.
    ///
    /// # Errors
    /// The first 8 violations, or that the check ran out of steps or depth.
    pub fn validate(&self, instance: &Json<'_>) -> Result<(), Invalid> {
        validate::run(&self.nodes, self.root, instance)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({} subschemas)", self.nodes.len())
    }
}

/// One thing wrong with a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError {
    /// JSON Pointer into the schema; long names in it are cut.
    pub pointer: String,
    /// What was expected and what is there.
    pub message: String,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::fmt_at(f, &self.pointer, &self.message)
    }
}

impl std::error::Error for SchemaError {}

/// One way in which a value does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer into the instance; long names in it are cut.
    pub pointer: String,
    /// The keyword that refused, or `false` for the schema `false`.
    pub keyword: &'static str,
    /// What was expected and what came: types, bounds and names, not values.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::fmt_at(f, &self.pointer, &self.message)
    }
}

/// Why a value was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// At most 8, in the order found; empty only if `exhausted`.
    pub violations: Vec<Violation>,
    /// The step or depth budget ran out: whatever the rest may be, the value is refused.
    pub exhausted: bool,
}

impl Invalid {
    /// A sentence each, violations as [`violation_text`] has them; never empty.
    pub fn problems(&self, root: &str) -> Vec<String> {
        let mut problems: Vec<String> = self.violations.iter().map(|v| violation_text(root, v)).collect();
        if self.exhausted {
            problems.push(format!("{root}: too large or too deep to be checked, so refused"));
        }
        problems
    }

    /// All of it on one line.
    pub fn describe(&self, root: &str) -> String {
        self.problems(root).join("; ")
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe("value"))
    }
}

impl std::error::Error for Invalid {}

/// A violation as a caller reads it: `arguments.items[3]: expected integer, got string`.
///
/// `root` names the checked value. Names that are not plain words are quoted: `arguments["a b"]`.
pub fn violation_text(root: &str, violation: &Violation) -> String {
    format!("{root}{}: {}", text::dotted(&violation.pointer), violation.message)
}

#[cfg(test)]
mod tests;
