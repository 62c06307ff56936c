"""One running replica: it decides, commits, shows what is durable, and has it carried out."""
