//! Rules that apply other subschemas to the same value, and the words for a value that fits none of several.
//! It must never keep what a failed branch has evaluated.

use super::rule::{Condition, NodeId};
use super::text::{self, Path};
use super::validate::{Marks, Run};
use super::value::View;
use super::{Violation, violation_text};

/// Alternatives explained in one message.
const EXPLAINED_MAX: usize = 3;

impl<'s> Run<'s> {
    pub(super) fn all_of(&mut self, nodes: &[NodeId], value: View<'_>, path: &Path<'_>, mut marks: Option<&mut Marks>) -> bool {
        let mut fits = true;
        for node in nodes {
            fits &= self.check(*node, value, path, marks.as_deref_mut());
            if !fits && self.is_quiet() {
                break;
            }
        }
        fits
    }

    pub(super) fn any_of(&mut self, nodes: &[NodeId], value: View<'_>, path: &Path<'_>, mut marks: Option<&mut Marks>) -> bool {
        let mut fits = false;
        for node in nodes {
            fits |= self.branch(*node, value, path, marks.as_deref_mut());
            if fits && marks.is_none() {
                return true;
            }
        }
        fits || self.explain("anyOf", nodes, value, path)
    }

    pub(super) fn one_of(&mut self, nodes: &[NodeId], value: View<'_>, path: &Path<'_>, mut marks: Option<&mut Marks>) -> bool {
        let mut fitting = None;
        for (index, node) in nodes.iter().enumerate() {
            if !self.branch(*node, value, path, marks.as_deref_mut()) {
                continue;
            }
            if let Some(first) = fitting.replace(index) {
                return self.refuse(path, "oneOf", || {
                    format!("expected one of {} alternatives to fit, but {} and {} do", nodes.len(), first + 1, index + 1)
                });
            }
        }
        fitting.is_some() || self.explain("oneOf", nodes, value, path)
    }

    pub(super) fn not(&mut self, node: NodeId, value: View<'_>, path: &Path<'_>) -> bool {
        !self.quietly(node, value, path, None) || self.refuse(path, "not", || "fits what `not` excludes".to_owned())
    }

    pub(super) fn condition(
        &mut self,
        condition: &Condition,
        value: View<'_>,
        path: &Path<'_>,
        mut marks: Option<&mut Marks>,
    ) -> bool {
        let holds = self.branch(condition.test, value, path, marks.as_deref_mut());
        let next = if holds { condition.then } else { condition.otherwise };
        next.is_none_or(|node| self.check(node, value, path, marks))
    }

    /// A subschema that may fail; what it evaluates counts only if it fits.
    fn branch(&mut self, node: NodeId, value: View<'_>, path: &Path<'_>, marks: Option<&mut Marks>) -> bool {
        let Some(marks) = marks else {
            return self.quietly(node, value, path, None);
        };
        let mut own = Marks::default();
        let fits = self.quietly(node, value, path, Some(&mut own));
        if fits {
            marks.merge(&own);
        }
        fits
    }

    /// Says why no alternative fits. If all but one are about another kind of value, that one speaks for itself.
    fn explain(&mut self, keyword: &'static str, nodes: &[NodeId], value: View<'_>, path: &Path<'_>) -> bool {
        if self.is_quiet() || !self.spend(1) {
            return false;
        }
        let here = path.pointer();
        let mut reasons = Vec::new();
        let mut meant = Vec::new();
        for node in nodes {
            let violations = self.violations(*node, value, path);
            let Some(first) = violations.first() else {
                continue;
            };
            let about_kind = ["type", "const", "enum", "false"].contains(&first.keyword) && first.pointer == here;
            reasons.push(first.clone());
            if !about_kind {
                meant.push(violations);
            }
        }
        if meant.len() == 1 {
            return self.adopt(meant.swap_remove(0));
        }
        self.refuse(path, keyword, || {
            let told = reasons.iter().take(EXPLAINED_MAX).map(|reason| relative(reason, &here));
            let told = told.collect::<Vec<_>>().join("; or ");
            format!("fits none of {}: {told}", text::counted(nodes.len() as u64, "alternative", "alternatives"))
        })
    }
}

/// A violation as seen from the place where the alternatives stand.
fn relative(violation: &Violation, here: &str) -> String {
    let pointer = violation.pointer.strip_prefix(here).unwrap_or(&violation.pointer).to_owned();
    if pointer.is_empty() {
        return violation.message.clone();
    }
    violation_text("", &Violation { pointer, ..violation.clone() })
}
