//! The environment a configuration sets for a command, here or on another host.
//!
//! Names and values are literals: no argument reaches a name, and a brace in a value is a brace. Nothing here reads the
//! gateway's own environment.

use crate::action::template::quoted;

/// A portable environment name (POSIX.1-2024, Base Definitions 8.1), lower case allowed.
pub fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// What is wrong with an environment; one sentence a problem, each beginning with `env`.
pub fn problems(env: &[(String, String)]) -> Vec<String> {
    let mut problems = Vec::new();
    for (index, (name, value)) in env.iter().enumerate() {
        if !is_variable(name) {
            problems.push(format!("env: expected a name of letters, digits and _, got {}", quoted(name)));
        }
        if value.contains('\0') {
            problems.push(format!("env {}: expected a value without NUL", quoted(name)));
        }
        if env[..index].iter().any(|(other, _)| other == name) {
            problems.push(format!("env {}: expected each name once, got it twice", quoted(name)));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(env: &[(&str, &str)], parts: &[&str]) {
        let env: Vec<_> = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let problems = problems(&env);
        assert_eq!(problems.len(), parts.len(), "{problems:?}");
        assert!(problems.iter().zip(parts).all(|(problem, part)| problem.contains(part)), "{parts:?}: {problems:?}");
    }

    #[test]
    fn names_are_portable_and_unique_values_free_of_nul() {
        check(&[("A", ""), ("_a1", "a b\n'"), ("a", "A=B")], &[]);
        check(&[("", ""), ("1A", ""), ("A-B", ""), ("A=B", ""), ("é", "")], &["\"\"", "\"1A\"", "\"A-B\"", "\"A=B\"", "\"é\""]);
        check(&[("A", "x\0"), ("B", ""), ("A", "")], &["env \"A\": expected a value without NUL", "twice"]);
    }
}
