//! `$ref`: finds each target inside the document, and refuses references that run in a circle on the spot.
//! It must never look for a target outside the document.

use serde_json::Value;

use super::compile::Compiler;
use super::rule::{Node, NodeId, Rule};
use super::{text, uri};

/// A reference seen on the walk, to be resolved when all targets are known.
pub(super) struct PendingRef<'d> {
    /// The node that holds it.
    pub(super) node: NodeId,
    pub(super) base: String,
    pub(super) reference: &'d str,
    /// Of the keyword in the document.
    pub(super) pointer: String,
}

/// How far the search for circles has come with a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    New,
    Open,
    Done,
}

impl<'d> Compiler<'d> {
    pub(super) fn resolve_references(&mut self) {
        let refs = std::mem::take(&mut self.refs);
        for pending in &refs {
            match self.find(pending) {
                Ok(target) => self.point(pending.node, target),
                Err(problem) => self.fail_at(pending.pointer.clone(), problem),
            }
        }
        if self.errors.is_empty()
            && let Some(circle) = self.circle()
            && let Some(pending) = refs.iter().find(|pending| circle.contains(&pending.node))
        {
            let problem = "expected a reference that goes down into the value, got a circle on the spot";
            self.fail_at(pending.pointer.clone(), problem.to_owned());
        }
    }

    fn find(&self, pending: &PendingRef<'d>) -> Result<NodeId, String> {
        let quoted = text::quoted(pending.reference);
        let (target, fragment) = uri::split_fragment(pending.reference);
        let target = uri::resolve(&pending.base, target);
        let Some(resource) = self.resources.get(&target) else {
            return Err(format!("no subschema here has the `$id` of {quoted}, and other documents are never read"));
        };
        let fragment = uri::percent_decoded(fragment).ok_or_else(|| format!("broken percent escape in {quoted}"))?;
        let found = if fragment.is_empty() || fragment.starts_with('/') {
            resource.pointer(&fragment).and_then(|value| self.node_at(value))
        } else {
            self.anchors.get(&(target, fragment.as_str())).copied()
        };
        found.ok_or_else(|| format!("no subschema at {quoted}"))
    }

    fn node_at(&self, value: &Value) -> Option<NodeId> {
        self.places.get(&std::ptr::from_ref(value)).copied()
    }

    fn point(&mut self, node: NodeId, target: NodeId) {
        if let Node::Rules(rules) = &mut self.nodes[node] {
            for rule in &mut rules.list {
                if let Rule::Ref(to) = rule {
                    *to = target;
                }
            }
        }
    }

    /// The nodes of a chain that comes back to its beginning without going down into the value, if there is one.
    /// Depth-first with a stack of its own, because a chain may be as long as the document.
    fn circle(&self) -> Option<Vec<NodeId>> {
        let mut visits = vec![Visit::New; self.nodes.len()];
        for start in 0..self.nodes.len() {
            if visits[start] != Visit::New {
                continue;
            }
            visits[start] = Visit::Open;
            let mut stack = vec![(start, self.in_place(start))];
            while let Some((node, ahead)) = stack.last_mut() {
                let Some(next) = ahead.pop() else {
                    visits[*node] = Visit::Done;
                    stack.pop();
                    continue;
                };
                match visits[next] {
                    Visit::Done => {}
                    Visit::Open => {
                        let chain = stack.iter().map(|(node, _)| *node);
                        return Some(chain.skip_while(|node| *node != next).collect());
                    }
                    Visit::New => {
                        visits[next] = Visit::Open;
                        stack.push((next, self.in_place(next)));
                    }
                }
            }
        }
        None
    }

    fn in_place(&self, node: NodeId) -> Vec<NodeId> {
        match &self.nodes[node] {
            Node::Any | Node::Never => Vec::new(),
            Node::Rules(rules) => rules.list.iter().flat_map(Rule::in_place).collect(),
        }
    }
}
