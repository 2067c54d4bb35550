select page_count, page_size from pragma_page_count, pragma_page_size
