"""HTTP itself: connections, strict reading, answers, authentication and limits. Nothing here knows a resource."""
