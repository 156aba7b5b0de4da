"""What is drawn, apart from widgets: text and Markdown, the atlas' cells. Nothing here needs a running application."""
