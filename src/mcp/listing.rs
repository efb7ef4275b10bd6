//! What `tools/list` announces: entries in a fixed order, neutral of revision.

/// The tools, in the order in which they are announced. It depends on nothing but the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolListing {
    /// One entry a tool.
    pub entries: Vec<ToolEntry>,
}

/// One tool as announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolEntry {
    /// `^[a-zA-Z0-9_-]{1,64}$`, unique; its maker checks that.
    pub name: String,
    /// For people; known from 2025-06-18 on.
    pub title: Option<String>,
    /// For the model.
    pub description: String,
    /// JSON text of an object with `"type": "object"` at its root.
    pub input_schema: String,
    /// Known from 2025-03-26 on.
    pub annotations: ToolAnnotations,
}

/// The hints of the specification; `None` leaves its default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolAnnotations {
    /// `readOnlyHint`
    pub read_only: Option<bool>,
    /// `destructiveHint`
    pub destructive: Option<bool>,
    /// `idempotentHint`
    pub idempotent: Option<bool>,
    /// `openWorldHint`
    pub open_world: Option<bool>,
}
