"""The Azure dialect: documents, approvals, instance facts and errors, in both directions. Pure."""
