//! Licence expressions in SPDX syntax, judged against a list of allowed licences.

/// The packages (name and expression) whose licence is not allowed.
pub fn refused(packages: &[(String, Option<String>)], allowed: &[String]) -> Vec<String> {
    let is_fine = |text: &Option<String>| text.as_ref().is_some_and(|text| is_allowed(text, allowed) == Some(true));
    let refused = packages.iter().filter(|(_, licence)| !is_fine(licence));
    refused.map(|(name, licence)| format!("{name}: {}", licence.as_deref().unwrap_or("none named"))).collect()
}

/// `None` if it is no expression.
fn is_allowed(expression: &str, allowed: &[String]) -> Option<bool> {
    // A slash is the old way to write OR.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = Words { words: spaced.split_whitespace().collect(), next: 0 };
    let verdict = words.either(allowed)?;
    (words.next == words.words.len()).then_some(verdict)
}

struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Words<'a> {
    fn take(&mut self) -> Option<&'a str> {
        self.next += 1;
        self.words.get(self.next - 1).copied()
    }

    fn take_if(&mut self, word: &str) -> bool {
        let is_it = self.words.get(self.next) == Some(&word);
        self.next += usize::from(is_it);
        is_it
    }

    fn either(&mut self, allowed: &[String]) -> Option<bool> {
        let mut verdict = self.both(allowed)?;
        while self.take_if("OR") {
            verdict |= self.both(allowed)?;
        }
        Some(verdict)
    }

    fn both(&mut self, allowed: &[String]) -> Option<bool> {
        let mut verdict = self.one(allowed)?;
        while self.take_if("AND") {
            verdict &= self.one(allowed)?;
        }
        Some(verdict)
    }

    fn one(&mut self, allowed: &[String]) -> Option<bool> {
        if self.take_if("(") {
            let verdict = self.either(allowed)?;
            return self.take_if(")").then_some(verdict);
        }
        let name = self.take().filter(|word| !["OR", "AND", "WITH", ")"].contains(word))?;
        // An exception is part of the licence's name: allowed only where listed whole.
        let name = if self.take_if("WITH") { format!("{name} WITH {}", self.take()?) } else { name.to_owned() };
        Some(allowed.contains(&name))
    }
}

#[track_caller]
fn check(expression: &str, expected: Option<bool>) {
    let allowed = ["MIT", "ISC", "A WITH e"].map(str::to_owned);
    assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
}

#[test]
fn expressions_are_judged() {
    check("MIT", Some(true));
    check("GPL-3.0-only", Some(false));
    check("GPL-3.0-only OR MIT", Some(true));
    check("GPL-3.0-only/MIT", Some(true));
    check("GPL-3.0-only AND MIT", Some(false));
    check("MIT AND (ISC OR GPL-3.0-only)", Some(true));
    check("(MIT AND GPL-3.0-only) OR BSD", Some(false));
    check("GPL-3.0-only AND MIT OR ISC", Some(true));
    check("A WITH e", Some(true));
    check("A", Some(false));
    check("MIT WITH e", Some(false));
}

#[test]
fn what_is_no_expression_is_not_allowed() {
    ["", "MIT ISC", "MIT OR", "(MIT", "MIT)", "MIT WITH", "AND"].iter().for_each(|text| check(text, None));
    let package = |licence: Option<&str>| vec![("a".to_owned(), licence.map(str::to_owned))];
    let allowed = ["MIT".to_owned()];
    assert_eq!(refused(&package(Some("MIT")), &allowed), [""; 0]);
    assert_eq!(refused(&package(Some("MIT OR")), &allowed), ["a: MIT OR"]);
    assert_eq!(refused(&package(None), &allowed), ["a: none named"]);
}
